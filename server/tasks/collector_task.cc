// SPDX-License-Identifier: Apache-2.0
#include "server/tasks/collector_task.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/log/log.h"
#include "common/process/headroom.h"
#include "common/threads/worker_thread.h"
#include "server/guard/resource_guard.h"

namespace jobscope {

namespace {

// Free memory required before a drain: far more than one drain allocates.
constexpr uint64_t kDrainBytes = uint64_t{8} << 20;
constexpr auto kMeanwhileInterval = std::chrono::milliseconds(10);
constexpr absl::Duration kOutOfMemoryPause = absl::Milliseconds(100);
// How long a process without a limit on its memory is taken to have none: reading the limits took a
// third of the time of a drain that found nothing.
constexpr auto kUnlimitedFor = std::chrono::seconds(1);

}  // namespace

CollectorTask::CollectorTask(std::shared_ptr<CollectorSlot> slot, std::shared_ptr<void> context)
    : slot_(std::move(slot)), context_(std::move(context)) {}

absl::Status CollectorTask::Start(std::shared_ptr<CollectorSlot> slot,
                                  std::shared_ptr<void> context,
                                  std::shared_ptr<CollectorTask>* task) {
  std::shared_ptr<CollectorTask> made(new CollectorTask(std::move(slot), std::move(context)));
  if (absl::Status started = StartWorkerThread(
          "jobscope-collect", [made] { made->Run(); }, &made->tid_);
      !started.ok()) {
    return started;
  }
  *task = std::move(made);
  return absl::OkStatus();
}

void CollectorTask::PostArm(const ArmRequest& request) {
  Post(Verb::kArm, [&] { arm_request_ = request; });
}

void CollectorTask::PostStart(const StartRequest& request) {
  Post(Verb::kStart, [&] { start_request_ = request; });
}

void CollectorTask::PostStop(uint64_t end_ticks) {
  Post(Verb::kStop, [&] { end_ticks_ = end_ticks; });
}

void CollectorTask::PostReport() {
  Post(Verb::kReport, [] {});
}

// The thread reads a request without the lock while it runs the verb. That is safe: during a verb,
// Post is called only for an abandoned task, whose requests do not change any more.
void CollectorTask::Post(Verb verb, absl::FunctionRef<void()> write_request) {
  const MutexLock lock(&mutex_);
  if (abandoned_) return;
  write_request();
  posted_ = verb;
  starvation_.reset();
  changed_.NotifyAll();
}

bool CollectorTask::Await(Clock::time_point deadline, const Meanwhile& meanwhile) {
  const MutexLock lock(&mutex_);
  if (abandoned_) return false;
  Clock::time_point until = deadline;
  auto latest = Clock::time_point::max();
  while (!AwaitReturn(until, meanwhile, &latest)) {
    // The lock is released here: a thread that waits for it would look as if it hung.
    if (starvation_.has_value()) {
      const MutexUnlock unlocked(&mutex_);
      until = deadline + starvation_->Lasted();
    }
    if (std::min(until, latest) <= Clock::now()) break;
  }
  if (posted_ == Verb::kNone) return true;
  AbandonIn(posted_);
  return false;
}

void CollectorTask::AbandonIn(Verb verb) {
  abandoned_ = true;
  abandoned_in_ = verb;
  slot_->SetWedged(verb);
}

void CollectorTask::AwaitWithoutAbandoning(Clock::time_point deadline, const Meanwhile& meanwhile) {
  const MutexLock lock(&mutex_);
  if (abandoned_) return;
  auto latest = Clock::time_point::max();
  if (AwaitReturn(deadline, meanwhile, &latest)) return;
  starvation_.emplace(tid_);
}

bool CollectorTask::AwaitReturn(Clock::time_point deadline, const Meanwhile& meanwhile,
                                Clock::time_point* latest) {
  while (posted_ != Verb::kNone) {
    if (meanwhile) {
      const MutexUnlock unlocked(&mutex_);
      *latest = meanwhile();
    }
    const auto end = std::min(deadline, *latest);
    const auto until = meanwhile ? std::min(end, Clock::now() + kMeanwhileInterval) : end;
    if (changed_.WaitUntil(&mutex_, until, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
          return posted_ == Verb::kNone;
        })) {
      return true;
    }
    if (until == end) return false;
  }
  return true;
}

void CollectorTask::Finish() {
  const MutexLock lock(&mutex_);
  finished_ = true;
  changed_.NotifyAll();
}

void CollectorTask::Abandon() {
  const MutexLock lock(&mutex_);
  // Between verbs the thread is about to stop the collector.
  if (!abandoned_ && !finished_) AbandonIn(posted_ != Verb::kNone ? posted_ : Verb::kStop);
  finished_ = true;
  changed_.NotifyAll();
}

absl::Status CollectorTask::status() const {
  const MutexLock lock(&mutex_);
  return status_;
}

bool CollectorTask::abandoned() const {
  const MutexLock lock(&mutex_);
  return abandoned_;
}

Verb CollectorTask::abandoned_in() const {
  const MutexLock lock(&mutex_);
  return abandoned_in_;
}

bool CollectorTask::threw() const {
  const MutexLock lock(&mutex_);
  return threw_;
}

bool CollectorTask::armed() const {
  const MutexLock lock(&mutex_);
  return armed_;
}

std::optional<CollectorReport> CollectorTask::report() const {
  const MutexLock lock(&mutex_);
  return report_;
}

void CollectorTask::Run() {
  bool owes_report = false;
  MutexLock lock(&mutex_);
  while (true) {
    DrainUntilPosted();
    if (posted_ == Verb::kNone) break;  // finished
    const Verb verb = posted_;
    owes_report = verb != Verb::kReport;
    {
      const MutexUnlock unlocked(&mutex_);
      RunVerb(verb);
    }
    posted_ = Verb::kNone;
    changed_.NotifyAll();
    if (abandoned_) break;
  }
  // The session has continued without this collector, or has itself failed: stops the collector,
  // then allows it to take part again. Report belongs to that: CUDA's gives CUPTI back there.
  const bool armed = armed_;
  const bool wedged = abandoned_;
  lock.Release();
  const auto call = [&](Verb verb, absl::FunctionRef<void()> run) {
    if (wedged) slot_->SetWedged(verb);  // it may hang in this one, too
    try {
      run();
    } catch (const std::exception&) {
      Log(LogLevel::kError, "a collector could not be ended: out of memory");
    }
  };
  if (armed) {
    call(Verb::kStop, [&] {
      (void)collector()->Stop(end_ticks_ != 0 ? end_ticks_ : start_request_.start_ticks);
    });
  }
  if (wedged && owes_report) call(Verb::kReport, [&] { (void)collector()->Report(); });
  if (wedged) slot_->SetWedged(Verb::kNone);
}

void CollectorTask::DrainUntilPosted() {
  auto next_drain = Clock::now();
  while (!called()) {
    const auto until = draining_ ? next_drain : Clock::time_point::max();
    if (changed_.WaitUntil(&mutex_, until,
                           [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return called(); })) {
      return;
    }
    absl::Duration pause = absl::InfiniteDuration();
    absl::Status status;
    bool threw = false;
    {
      const MutexUnlock unlocked(&mutex_);
      try {
        // Without free memory the drain is skipped: the rings then overwrite events, which are
        // counted as lost. A failed allocation in the middle of a drain could lose everything the
        // collector holds.
        pause = HasMemoryToDrain() ? collector()->Drain() : kOutOfMemoryPause;
      } catch (const std::exception&) {
        status = OutOfMemoryError();
        threw = true;
      }
    }
    status_.Update(status);
    threw_ = threw_ || threw;
    if (pause == absl::InfiniteDuration()) {
      draining_ = false;
      continue;
    }
    next_drain = Clock::now() + absl::ToChronoNanoseconds(std::max(pause, absl::ZeroDuration()));
  }
}

bool CollectorTask::HasMemoryToDrain() {
  const auto now = Clock::now();
  if (now < unlimited_until_) return true;
  if (MappingIsLimited()) return CanMap(kDrainBytes);
  unlimited_until_ = now + kUnlimitedFor;
  return true;
}

void CollectorTask::RunVerb(Verb verb) {
  absl::Status status;
  bool refused = false;
  bool threw = false;
  std::optional<CollectorReport> report;
  try {
    status = Call(verb, &report);
    refused = !status.ok();
  } catch (const std::exception&) {  // not `...`: Python unwinds threads that it ends
    status = OutOfMemoryError();
    threw = true;
  }
  const MutexLock lock(&mutex_);
  if (verb == Verb::kArm) armed_ = true;
  if (verb != Verb::kArm && threw) threw_ = true;
  if (verb == Verb::kStop || refused) armed_ = false;
  if (report.has_value()) report_ = std::move(report);
  const bool records_ahead = verb == Verb::kArm && collector()->RecordingSince() != 0;
  draining_ = status.ok() && (verb == Verb::kStart || records_ahead);
  status_.Update(status);
}

absl::Status CollectorTask::Call(Verb verb, std::optional<CollectorReport>* report) {
  switch (verb) {
    case Verb::kArm:
      return collector()->Arm(arm_request_);
    case Verb::kStart:
      return collector()->Start(start_request_);
    case Verb::kStop:
      return collector()->Stop(end_ticks_);
    case Verb::kReport:
      *report = collector()->Report();
      return absl::OkStatus();
    case Verb::kNone:
      break;
  }
  return absl::OkStatus();
}

}  // namespace jobscope
