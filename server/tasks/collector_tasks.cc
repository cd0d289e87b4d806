// SPDX-License-Identifier: Apache-2.0
#include "server/tasks/collector_tasks.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/tasks/collector_state.h"

namespace jobscope {
namespace {

using Clock = CondVar::Clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Deadlines of the verbs (collectors/collector.h).
constexpr auto kArmLimit = seconds(5);
// A collector that needs longer than kStartLimit records what comes after its start. On an
// overloaded machine, where a job's threads wait for a second to be scheduled, the job still gets
// its trace. One that is to watch for steps is abandoned: nothing would end the wait for them.
constexpr auto kStartLimit = seconds(1);
constexpr auto kLateStartLimit = milliseconds(500);  // from the end of the recording
constexpr auto kStopLimit = seconds(2);
constexpr auto kReportLimit = seconds(1);
// Limits at process exit, where captures get one second in all (process_server.cc), 0.3 s of it for
// delivery. With the limits above, one collector with much to hand over (JAX's profiler) cost the
// client the end of every collector's trace in 4 of 14 exits.
constexpr auto kStartLimitAtShutdown = milliseconds(0);  // the late start's follows
constexpr auto kLateStartLimitAtShutdown = milliseconds(50);
constexpr auto kStopLimitAtShutdown = milliseconds(400);
constexpr auto kReportLimitAtShutdown = milliseconds(100);

std::string Because(const v1::CollectorState& state) {
  return absl::StrCat(" (", state.name(), ": ", state.reason(), ")");
}

}  // namespace

CollectorTasks::CollectorTasks(std::function<void()> process_queue,
                               std::function<std::optional<Clock::time_point>()> shutdown_since)
    : meanwhile_([this, process = std::move(process_queue), since = std::move(shutdown_since)] {
        process();
        // An exiting process has no time for threads that are not scheduled.
        const std::optional<Clock::time_point> shutdown = since();
        return shutdown.has_value() ? std::max(*shutdown, wait_begin_) + limit_at_shutdown_
                                    : Clock::time_point::max();
      }) {}

CollectorTasks::Slots CollectorTasks::Choose(const Slots& slots, const ArmRequest& request) {
  Slots chosen;
  for (const std::shared_ptr<CollectorSlot>& slot : slots) {
    const Collector& collector = *slot->collector();
    if (const Verb verb = slot->wedged_in(); verb != Verb::kNone) {
      NoteAbsent(
          collector, CollectorState::kWedged,
          absl::StrCat("it still hangs in the verb ", VerbName(verb), " of an earlier capture"));
    } else if (const std::string why = collector.WhyOff(request); !why.empty()) {
      NoteAbsent(collector, CollectorState::kOff, why);
    } else {
      chosen.push_back(slot);
    }
  }
  for (const std::string& name : request.recording.frameworks.names()) {
    const auto is_it = [&name](const auto& slot) { return slot->collector()->name() == name; };
    if (std::none_of(slots.begin(), slots.end(), is_it)) {
      absent_.push_back(CollectorStateOf(name, CollectorState::kFailed,
                                         "this worker has no collector of this name"));
    }
  }
  return chosen;
}

void CollectorTasks::Create(const Slots& slots, size_t most, const std::shared_ptr<void>& context) {
  tasks_.reserve(slots.size());  // this list ends every task that has begun
  for (const std::shared_ptr<CollectorSlot>& slot : slots) {
    const Collector& collector = *slot->collector();
    if (tasks_.size() == most) {
      NoteAbsent(collector, CollectorState::kFailed,
                 "no thread for it can be created; raise the limit on threads (ulimit -u)");
      continue;
    }
    std::shared_ptr<CollectorTask> task;
    if (absl::Status status = CollectorTask::Start(slot, context, &task); !status.ok()) {
      NoteAbsent(collector, CollectorState::kFailed, std::string(status.message()));
      continue;
    }
    tasks_.push_back(std::move(task));
  }
}

void CollectorTasks::NoteAbsent(const Collector& collector, CollectorState state,
                                const std::string& reason) {
  absent_.push_back(CollectorStateOf(collector.name(), state, reason));
  if (collector.WatchesSteps()) why_unwatched_ = Because(absent_.back());
}

void CollectorTasks::Arm(const ArmRequest& request) {
  for (const auto& task : tasks_) task->PostArm(request);
  Await(kArmLimit, kArmLimit);
}

void CollectorTasks::Start(const StartRequest& request, bool watching_steps) {
  for (const auto& task : tasks_) {
    if (task->status().ok() && task->collector()->WatchesSteps() == watching_steps) {
      task->PostStart(request);
    }
  }
}

void CollectorTasks::AwaitStarts() {
  BeginWait(kStartLimitAtShutdown);
  const auto deadline = wait_begin_ + kStartLimit;
  for (const auto& task : tasks_) task->AwaitWithoutAbandoning(deadline, meanwhile_);
}

absl::Status CollectorTasks::AwaitStepWatcher() {
  Await(kStartLimit, kStartLimit);
  std::string reason = why_unwatched_;
  for (const auto& task : tasks_) {
    if (!task->collector()->WatchesSteps()) continue;
    if (task->status().ok() && !task->abandoned()) return absl::OkStatus();
    reason = Because(StateAfterArm(*task));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("no collector of this process can watch for steps", reason,
                   "; capture for a duration instead"));
}

void CollectorTasks::Stop(uint64_t end_ticks) {
  Await(kLateStartLimit, kLateStartLimitAtShutdown);
  for (const auto& task : tasks_) {
    if (task->armed()) task->PostStop(end_ticks);
  }
  Await(kStopLimit, kStopLimitAtShutdown);
}

void CollectorTasks::Report() {
  for (const auto& task : tasks_) task->PostReport();
  Await(kReportLimit, kReportLimitAtShutdown);
}

void CollectorTasks::Finish() {
  for (const auto& task : tasks_) task->Finish();
}

void CollectorTasks::Abandon() {
  for (const auto& task : tasks_) task->Abandon();
}

uint64_t CollectorTasks::OldestTicks() const {
  uint64_t oldest = UINT64_MAX;
  for (const auto& task : tasks_) {
    if (!task->abandoned()) oldest = std::min(oldest, task->collector()->OldestTicks());
  }
  return oldest;
}

uint64_t CollectorTasks::RecordingSince() const {
  uint64_t since_ticks = 0;
  for (const auto& task : tasks_) {
    if (task->abandoned() || !task->status().ok()) continue;
    since_ticks = std::max(since_ticks, task->collector()->RecordingSince());
  }
  return since_ticks;
}

std::vector<v1::CollectorState> CollectorTasks::StatesAfterArm() const {
  std::vector<v1::CollectorState> states;
  for (const auto& task : tasks_) states.push_back(StateAfterArm(*task));
  states.insert(states.end(), absent_.begin(), absent_.end());
  return states;
}

std::vector<Collector*> CollectorTasks::collectors() const {
  std::vector<Collector*> collectors;
  for (const auto& task : tasks_) collectors.push_back(task->collector());
  return collectors;
}

void CollectorTasks::BeginWait(Clock::duration limit_at_shutdown) {
  wait_begin_ = Clock::now();
  limit_at_shutdown_ = limit_at_shutdown;
}

void CollectorTasks::Await(Clock::duration limit, Clock::duration limit_at_shutdown) {
  BeginWait(limit_at_shutdown);
  const auto half = wait_begin_ + limit / 2;
  for (const auto& task : tasks_) task->AwaitWithoutAbandoning(half, meanwhile_);
  // This thread may itself have been scheduled late.
  const auto deadline = std::max(half, Clock::now()) + limit / 2;
  for (const auto& task : tasks_) task->Await(deadline, meanwhile_);
}

}  // namespace jobscope
