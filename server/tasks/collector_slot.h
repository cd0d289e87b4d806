// SPDX-License-Identifier: Apache-2.0
//
// Holds one collector of this process, and the verb in which it hangs.
#ifndef SERVER_TASKS_COLLECTOR_SLOT_H_
#define SERVER_TASKS_COLLECTOR_SLOT_H_

#include "collectors/collector.h"
#include "common/sync/mutex.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope {

enum class Verb { kNone, kArm, kStart, kStop, kReport };
const char* VerbName(Verb verb);

// Keeps between sessions whether a collector can take part in one. Thread-safe.
class CollectorSlot {
 public:
  explicit CollectorSlot(Collector* collector) : collector_(collector) {}
  Collector* collector() const { return collector_; }

  // The verb in which the collector hangs, or kNone.
  Verb wedged_in() const;
  void SetWedged(Verb verb);
  // The collector's current state, outside of a session.
  v1::CollectorState Describe() const;

 private:
  Collector* const collector_;
  mutable Mutex mutex_;
  Verb wedged_in_ ABSL_GUARDED_BY(mutex_) = Verb::kNone;
};

}  // namespace jobscope

#endif  // SERVER_TASKS_COLLECTOR_SLOT_H_
