// SPDX-License-Identifier: Apache-2.0
//
// The collectors of one session: which take part, and their verbs, each with its deadline.
#ifndef SERVER_SESSION_COLLECTOR_TASKS_H_
#define SERVER_SESSION_COLLECTOR_TASKS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collectors/collector.h"
#include "jobscope/v1/item.pb.h"
#include "server/session/collector_task.h"

namespace jobscope {

// Belongs to the session thread; a verb blocks it until all collectors have done theirs, or its
// deadline. Whoever misses one is left alone, and the others go on.
class CollectorTasks {
 public:
  using Slots = std::vector<std::shared_ptr<CollectorSlot>>;

  // Those of `slots` that take part in what `request` asks for. Notes why the others do not, and
  // which frameworks it names that nobody collects.
  Slots Choose(const Slots& slots, const ArmRequest& request);
  // Makes the tasks of the first `most` of `slots`, over `context`.
  void Create(const Slots& slots, size_t most, const std::shared_ptr<SessionContext>& context);

  void Arm(const ArmRequest& request);
  // Posts the start to those that watch for steps, or to the others; AwaitStarts waits for both.
  void Start(const StartRequest& request, bool watching_steps);
  void AwaitStarts();
  // Those that still start have a little more time before.
  void Stop(uint64_t end_ticks);
  void Report();
  void Finish();
  // The process ends: collectors have short limits, and no more.
  void HurryUp() { shutting_down_ = true; }

  // The earliest ticks that every collector with a past reaches; UINT64_MAX: none has one.
  uint64_t OldestTicks() const;
  // Since when all that have started record; 0: none has.
  uint64_t RecordingSince() const;
  std::vector<v1::CollectorState> StatesAfterArm() const;
  std::vector<Collector*> collectors() const;

  const std::vector<std::shared_ptr<CollectorTask>>& tasks() const { return tasks_; }
  // Off, wedged since an earlier session, or without a thread.
  const std::vector<v1::CollectorState>& absent() const { return absent_; }

 private:
  void Await(std::chrono::steady_clock::duration limit);

  std::vector<std::shared_ptr<CollectorTask>> tasks_;
  std::vector<v1::CollectorState> absent_;
  bool shutting_down_ = false;
};

}  // namespace jobscope

#endif  // SERVER_SESSION_COLLECTOR_TASKS_H_
