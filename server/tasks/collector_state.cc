// SPDX-License-Identifier: Apache-2.0
#include "server/tasks/collector_state.h"

#include "absl/strings/str_cat.h"
#include "common/text/utf8.h"

namespace jobscope {
namespace {

// The collector may have recorded, but did not report its events and losses.
bool AccountUnknown(const CollectorTask& task, const CollectorReport* report) {
  if (report != nullptr) return report->account_unknown;
  return task.abandoned() && task.abandoned_in() != Verb::kArm;
}

}  // namespace

std::string CleanText(std::string_view text) {
  std::string scratch;
  return std::string(ToUtf8(text, &scratch));
}

v1::CollectorState CollectorStateOf(std::string_view name, CollectorState state,
                                    std::string_view reason) {
  v1::CollectorState out;
  out.set_name(CleanText(name));
  out.set_state(Name(state));
  out.set_reason(CleanText(reason));
  return out;
}

v1::CollectorState StateOf(const CollectorTask& task, const CollectorReport* report) {
  const std::string_view name = task.collector()->name();
  if (task.abandoned()) {
    v1::CollectorState state = CollectorStateOf(
        name, CollectorState::kWedged,
        absl::StrCat("it did not return from the verb ", VerbName(task.abandoned_in()), " in time",
                     AccountUnknown(task, report)
                         ? ": the end of its events is missing, and its losses are not known"
                         : ""));
    state.set_account_unknown(AccountUnknown(task, report));
    return state;
  }
  // This abseil's string_view is not std::string_view.
  const std::string message(task.status().message());
  if (task.threw()) {
    v1::CollectorState state = CollectorStateOf(
        name, CollectorState::kFailed,
        absl::StrCat(message, ": part of its events is missing, and its losses are not known"));
    state.set_account_unknown(true);
    return state;
  }
  if (report != nullptr && report->state != CollectorState::kOn) {
    v1::CollectorState state =
        CollectorStateOf(name, report->state, report->reason.empty() ? message : report->reason);
    state.set_account_unknown(report->account_unknown);
    return state;
  }
  if (!task.status().ok()) return CollectorStateOf(name, CollectorState::kFailed, message);
  return CollectorStateOf(name, CollectorState::kOn, "");
}

v1::CollectorState StateAfterArm(const CollectorTask& task) {
  const CollectorReport description = task.collector()->Describe();
  return StateOf(task, task.abandoned() ? nullptr : &description);
}

}  // namespace jobscope
