// SPDX-License-Identifier: Apache-2.0
//
// Runs the verbs of all collectors of one session, each with its deadline, and chooses the
// collectors that take part.
#ifndef SERVER_TASKS_COLLECTOR_TASKS_H_
#define SERVER_TASKS_COLLECTOR_TASKS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "collectors/collector.h"
#include "jobscope/v1/item.pb.h"
#include "server/tasks/collector_task.h"

namespace jobscope {

// Belongs to the session thread. A verb blocks that thread until all collectors have returned, or
// until the deadline. A collector that misses a deadline is abandoned; the others go on.
class CollectorTasks {
 public:
  using Slots = std::vector<std::shared_ptr<CollectorSlot>>;
  using Clock = CollectorTask::Clock;

  // Both are called every 10 ms while a verb blocks. Once the process or its server shuts down,
  // `shutdown_since` returns since when: from then on the verbs, also the one that blocks, have
  // short limits, without extension.
  CollectorTasks(std::function<void()> process_queue,
                 std::function<std::optional<Clock::time_point>()> shutdown_since);
  CollectorTasks(const CollectorTasks&) = delete;
  CollectorTasks& operator=(const CollectorTasks&) = delete;

  // Returns those of `slots` that take part in what `request` asks for. Records why the others do
  // not, and which requested frameworks no collector covers.
  Slots Choose(const Slots& slots, const ArmRequest& request);
  // Creates the tasks of the first `most` of `slots`, over `context`.
  void Create(const Slots& slots, size_t most, const std::shared_ptr<void>& context);

  void Arm(const ArmRequest& request);
  // Posts the start to the collectors that watch for steps, or to the others; AwaitStarts waits for
  // both.
  void Start(const StartRequest& request, bool watching_steps);
  void AwaitStarts();
  // Blocks until the collectors that watch for steps have started, and abandons one that misses the
  // deadline. Returns FAILED_PRECONDITION, with the reason, if none watches then. Does not notice
  // one that fails later because memory runs out: the session then waits for steps until its limit,
  // or until it is stopped.
  absl::Status AwaitStepWatcher();
  // Collectors that are still starting first get a little more time.
  void Stop(uint64_t end_ticks);
  void Report();
  void Finish();
  // Instead of the above: the session has failed. Allocates nothing.
  void Abandon();

  // The earliest ticks back to which every collector with a past has events; UINT64_MAX: no
  // collector has a past.
  uint64_t OldestTicks() const;
  // The ticks since which all started collectors record; 0: none has started.
  uint64_t RecordingSince() const;
  std::vector<v1::CollectorState> StatesAfterArm() const;
  std::vector<Collector*> collectors() const;

  const std::vector<std::shared_ptr<CollectorTask>>& tasks() const { return tasks_; }
  // Collectors that are off, wedged since an earlier session, or without a thread.
  const std::vector<v1::CollectorState>& absent() const { return absent_; }

 private:
  void NoteAbsent(const Collector& collector, CollectorState state, const std::string& reason);
  // The waits that follow end `limit_at_shutdown` after the shutdown, or after now if that is
  // later.
  void BeginWait(Clock::duration limit_at_shutdown);
  void Await(Clock::duration limit, Clock::duration limit_at_shutdown);

  const CollectorTask::Meanwhile meanwhile_;
  Clock::time_point wait_begin_;
  Clock::duration limit_at_shutdown_{};
  std::vector<std::shared_ptr<CollectorTask>> tasks_;
  std::vector<v1::CollectorState> absent_;
  std::string why_unwatched_;  // of an absent collector that would watch for steps
};

}  // namespace jobscope

#endif  // SERVER_TASKS_COLLECTOR_TASKS_H_
