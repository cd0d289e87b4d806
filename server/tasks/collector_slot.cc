// SPDX-License-Identifier: Apache-2.0
#include "server/tasks/collector_slot.h"

#include "absl/strings/str_cat.h"
#include "server/tasks/collector_state.h"

namespace jobscope {

const char* VerbName(Verb verb) {
  switch (verb) {
    case Verb::kNone:
      return "none";
    case Verb::kArm:
      return "arm";
    case Verb::kStart:
      return "start";
    case Verb::kStop:
      return "stop";
    case Verb::kReport:
      return "report";
  }
  return "unknown";
}

Verb CollectorSlot::wedged_in() const {
  const MutexLock lock(&mutex_);
  return wedged_in_;
}

void CollectorSlot::SetWedged(Verb verb) {
  const MutexLock lock(&mutex_);
  wedged_in_ = verb;
}

v1::CollectorState CollectorSlot::Describe() const {
  if (const Verb verb = wedged_in(); verb != Verb::kNone) {
    return CollectorStateOf(collector_->name(), CollectorState::kWedged,
                            absl::StrCat("it hangs in the verb ", VerbName(verb)));
  }
  const CollectorReport report = collector_->Describe();
  v1::CollectorState state = CollectorStateOf(collector_->name(), report.state, report.reason);
  state.set_absent(report.absent);
  return state;
}

}  // namespace jobscope
