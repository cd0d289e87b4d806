// SPDX-License-Identifier: Apache-2.0
//
// Runs the verbs of one collector in one session, on a thread of its own, with deadlines.
#ifndef SERVER_TASKS_COLLECTOR_TASK_H_
#define SERVER_TASKS_COLLECTOR_TASK_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "common/process/starvation.h"
#include "common/sync/mutex.h"
#include "server/tasks/collector_slot.h"

namespace jobscope {

// Runs a collector's verbs. The session posts verbs and waits for them; the thread runs them in
// order and, while the collector records, calls Drain when the collector has asked for it. A
// collector that misses a deadline, or whose session fails, is abandoned: its slot is wedged until
// the verb has returned, and Stop and Report after it. A collector that throws has
// failed, and is stopped like any other.
class CollectorTask {
 public:
  using Clock = CondVar::Clock;
  // Called when the session thread begins to wait for a verb, and every 10 ms. Returns when the
  // wait ends at the latest, whatever its deadline. May be empty.
  using Meanwhile = std::function<Clock::time_point()>;

  // `context` owns the sink, names and events of the requests: the thread may use them after the
  // session, while the collector hangs in a verb. Returns RESOURCE_EXHAUSTED if no thread can be
  // created.
  static absl::Status Start(std::shared_ptr<CollectorSlot> slot, std::shared_ptr<void> context,
                            std::shared_ptr<CollectorTask>* task);
  ~CollectorTask() = default;
  CollectorTask(const CollectorTask&) = delete;
  CollectorTask& operator=(const CollectorTask&) = delete;

  Collector* collector() const { return slot_->collector(); }

  // Each posts one verb and returns at once. Each may be called at most once, in this order.
  // Ignored once the task is abandoned.
  void PostArm(const ArmRequest& request);
  void PostStart(const StartRequest& request);
  void PostStop(uint64_t end_ticks);
  void PostReport();

  // Blocks until the posted verb has returned, at most until `deadline`. Returns false if it has
  // not, and abandons the collector. After AwaitWithoutAbandoning, the time that its thread has
  // since waited for a processor does not count: on an overloaded machine the thread does not hang,
  // it is not scheduled.
  bool Await(Clock::time_point deadline, const Meanwhile& meanwhile = nullptr);
  // Blocks likewise, but abandons nothing: a late verb may still return. Call Await before the next
  // verb.
  void AwaitWithoutAbandoning(Clock::time_point deadline, const Meanwhile& meanwhile = nullptr);

  // Ends the thread once the last verb has returned. The session's last call.
  void Finish();
  // The session has failed: abandons the collector, whatever its thread does now, unless Finish was
  // called. Allocates nothing.
  void Abandon();

  // State after the verbs that have returned. `status` is that of the first verb or drain that
  // failed; OK if none did; RESOURCE_EXHAUSTED if it threw because memory ran out.
  absl::Status status() const;
  bool abandoned() const;
  Verb abandoned_in() const;
  // It threw after Arm: what it held then is neither in the trace nor counted.
  bool threw() const;
  // Arm has been called, and since then neither Stop nor a verb that failed: the collector waits
  // for Stop.
  bool armed() const;
  std::optional<CollectorReport> report() const;

 private:
  CollectorTask(std::shared_ptr<CollectorSlot> slot, std::shared_ptr<void> context);
  void Post(Verb verb, absl::FunctionRef<void()> write_request);
  void Run();
  void RunVerb(Verb verb);
  // Calls the verb. Throws whatever the collector throws.
  absl::Status Call(Verb verb, std::optional<CollectorReport>* report);
  // Drains until a verb is posted, or it is finished.
  void DrainUntilPosted() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether a drain may begin. Notices a new limit on memory at most 1 s late.
  bool HasMemoryToDrain();
  bool called() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return posted_ != Verb::kNone || finished_;
  }
  void AbandonIn(Verb verb) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for the posted verb. False: it has not returned by `deadline`, or by `latest`, which
  // `meanwhile` returned last.
  bool AwaitReturn(Clock::time_point deadline, const Meanwhile& meanwhile,
                   Clock::time_point* latest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<CollectorSlot> slot_;
  const std::shared_ptr<void> context_;
  mutable Mutex mutex_;
  CondVar changed_;
  Verb posted_ ABSL_GUARDED_BY(mutex_) = Verb::kNone;  // posted and not yet returned
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool armed_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  bool threw_ ABSL_GUARDED_BY(mutex_) = false;
  Verb abandoned_in_ ABSL_GUARDED_BY(mutex_) = Verb::kNone;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::optional<CollectorReport> report_ ABSL_GUARDED_BY(mutex_);
  // Used by the session thread only.
  pid_t tid_ = 0;  // of the thread
  // Since AwaitWithoutAbandoning timed out on this verb.
  std::optional<Starvation> starvation_;

  // Used by the thread only.
  Clock::time_point unlimited_until_;

  // Written by Post, read by the thread in the verb that follows, without the lock.
  ArmRequest arm_request_;
  StartRequest start_request_;
  uint64_t end_ticks_ = 0;
};

}  // namespace jobscope

#endif  // SERVER_TASKS_COLLECTOR_TASK_H_
