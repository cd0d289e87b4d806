// SPDX-License-Identifier: Apache-2.0
//
// One collector in one session: its verbs, on a thread of its own, with deadlines.
#ifndef SERVER_SESSION_COLLECTOR_TASK_H_
#define SERVER_SESSION_COLLECTOR_TASK_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "common/process/process_usage.h"

namespace jobscope {

enum class Verb { kNone, kArm, kStart, kStop, kReport };
const char* VerbName(Verb verb);

// What outlives a session because a collector may still hang in one of its verbs.
struct SessionContext {
  virtual ~SessionContext() = default;
};

// Whether a collector can take part in a session, kept between sessions. Thread-safe.
class CollectorSlot {
 public:
  explicit CollectorSlot(Collector* collector) : collector_(collector) {}
  Collector* collector() const { return collector_; }

  // The verb in which it hangs, or kNone.
  Verb wedged_in() const;
  void SetWedged(Verb verb);

 private:
  Collector* const collector_;
  mutable std::mutex mutex_;
  Verb wedged_in_ = Verb::kNone;
};

// The session posts verbs and waits for them; the thread runs them in order and, while the
// collector records, drains when it asked for it. A collector that misses a deadline is abandoned:
// its slot is wedged, and stays so until the verb returns; the thread then stops the collector,
// clears the slot, and ends. A collector that throws has failed, and is stopped as any other.
class CollectorTask {
 public:
  using Clock = std::chrono::steady_clock;

  // `context` keeps sink, names and events alive for as long as the thread may use them.
  // RESOURCE_EXHAUSTED: no thread.
  static absl::Status Start(std::shared_ptr<CollectorSlot> slot,
                            std::shared_ptr<SessionContext> context,
                            std::shared_ptr<CollectorTask>* task);
  ~CollectorTask() = default;
  CollectorTask(const CollectorTask&) = delete;
  CollectorTask& operator=(const CollectorTask&) = delete;

  Collector* collector() const { return slot_->collector(); }

  // Post one verb; return at once. Each at most once, in order. Ignored once abandoned.
  void PostArm(const ArmRequest& request);
  void PostStart(const StartRequest& request);
  void PostStop(uint64_t end_ticks);
  void PostReport();

  // Waits until the posted verb has returned, at most until `deadline`. False: it has not; the
  // collector is abandoned. After AwaitPatiently, what its thread has waited for a processor since
  // then does not count: on a machine with far too many threads it does not hang, it is not run.
  bool Await(Clock::time_point deadline);
  // Waits likewise, but abandons nobody: one that is late may still return. The next verb needs
  // Await first.
  void AwaitPatiently(Clock::time_point deadline);

  // Ends the thread once the last verb has returned. The session's last call.
  void Finish();

  // Of the verbs that have returned. Status of the first verb, or drain, that failed; OK if none
  // did. RESOURCE_EXHAUSTED: it threw, for want of memory.
  absl::Status status() const;
  bool abandoned() const;
  Verb abandoned_in() const;
  // Arm has been called, and since then neither Stop nor a verb that refused: the collector waits
  // for Stop.
  bool armed() const;
  std::optional<CollectorReport> report() const;

 private:
  CollectorTask(std::shared_ptr<CollectorSlot> slot, std::shared_ptr<SessionContext> context);
  void Post(Verb verb, absl::FunctionRef<void()> write_request);
  void Run();
  void RunVerb(Verb verb);
  // The verb itself. Throws what it throws.
  absl::Status Call(Verb verb, std::optional<CollectorReport>* report);
  // What the thread has waited for a processor since AwaitPatiently gave up; zero if that is not
  // known. Session thread, without mutex_.
  Clock::duration Starved(pid_t tid) const;
  // Drains until a verb is posted. Returns with `lock` held.
  void DrainUntilPosted(std::unique_lock<std::mutex>& lock);

  const std::shared_ptr<CollectorSlot> slot_;
  const std::shared_ptr<SessionContext> context_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Verb posted_ = Verb::kNone;  // posted and not yet returned
  pid_t tid_ = 0;              // of the thread, once it runs
  // Of the thread, when AwaitPatiently gave up on this verb. The session thread's own.
  std::optional<ThreadSchedule> schedule_;
  Clock::time_point schedule_time_;
  bool finished_ = false;
  bool abandoned_ = false;
  bool armed_ = false;
  bool draining_ = false;
  Verb abandoned_in_ = Verb::kNone;
  absl::Status status_;
  std::optional<CollectorReport> report_;
  ArmRequest arm_request_;
  StartRequest start_request_;
  uint64_t end_ticks_ = 0;
};

}  // namespace jobscope

#endif  // SERVER_SESSION_COLLECTOR_TASK_H_
