// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/sampler.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "absl/strings/str_cat.h"
#include "collectors/python/bridge/gil.h"
#include "common/log/log.h"
#include "jobscope/detail/ticks.h"

namespace jobscope::python {
namespace {

// Together with reading the last stack, the GIL is held for at most a millisecond.
constexpr absl::Duration kHoldBudget = absl::Microseconds(500);
// Bounds CPU time, because the GIL is not held: 10 % of a core at 100 Hz, in programs with hundreds
// of deep stacks.
constexpr absl::Duration kReadBudget = absl::Milliseconds(1);
constexpr int kNice = -10;

// The first version of the kernel's struct sched_attr (sched_setattr(2)). Newer C libraries define
// one of that name, and Linux's own header conflicts with theirs.
struct SchedAttr {
  uint32_t size = sizeof(SchedAttr);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime_ns = 0;
  uint64_t deadline_ns = 0;
  uint64_t period_ns = 0;
};
static_assert(sizeof(SchedAttr) == 48, "SCHED_ATTR_SIZE_VER0");

// Requests short time slices for the calling thread. Since Linux 6.12 a thread with shorter slices
// than others runs as soon as it wakes; otherwise it waits for the running thread's slice to end,
// about 3 ms. Needs no privilege; other kernels ignore it.
void AskForShortSlices() {
  SchedAttr attr;
  if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) != 0) return;
  attr.size = sizeof(attr);
  attr.flags = 0;
  attr.runtime_ns = 100'000;  // the minimum
  (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace

absl::Status Sampler::Prepare() {
  absl::Status status;
  const absl::Status ran = WithGil(*setup_.api, GilUse::kArm, [this, &status] {
    codes_ = std::make_unique<CodeTable>(*setup_.api, *setup_.trace);
    reader_ = std::make_unique<StackReader>(*setup_.api, *setup_.trace, codes_.get());
    status = reader_->Open();
  });
  if (!ran.ok() || !status.ok() || !reader_->reads_without_gil()) return ran.ok() ? status : ran;
  // Threads named now need no GIL during the capture.
  StackRound round = reader_->ReadWithoutGil(kReadBudget);
  return WithGil(*setup_.api, GilUse::kArm, [&] { reader_->Name(kHoldBudget, &round); });
}

void Sampler::Begin(const TraceWindow& window) {
  const MutexLock lock(&mutex_);
  lines_ = std::make_unique<PythonLines>(setup_.sink, setup_.names, codes_.get(),
                                         PythonLines::Kind::kSamples);
  fold_ = std::make_unique<SampleFold>(lines_.get(), window);
  next_ = CondVar::Clock::now();
  changed_.NotifyAll();
}

bool Sampler::AwaitNext() {
  const MutexLock lock(&mutex_);
  busy_ = false;
  changed_.NotifyAll();
  changed_.Wait(&mutex_, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stop_ || fold_ != nullptr;
  });
  changed_.WaitUntil(&mutex_, next_,
                     [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_; });
  if (stop_) return false;
  // At irregular intervals: a program with a period of its own, such as one training step per two
  // samples, would be sampled at the same places. A late sampler skips the missed samples.
  const auto period = std::chrono::nanoseconds(std::chrono::seconds(1)) / setup_.hz;
  next_ = std::max(next_ + period / 2 + std::chrono::nanoseconds(jitter_() % period.count()),
                   CondVar::Clock::now() + period / 2);
  busy_ = true;
  return true;
}

void Sampler::Leave() {
  const MutexLock lock(&mutex_);
  left_ = true;
  busy_ = false;
  changed_.NotifyAll();
}

// Discards all samples: an exception may have left them inconsistent.
void Sampler::DropSamples() {
  out_of_memory_ = true;
  fold_.reset();
  lines_.reset();
}

void Sampler::Run() {
  // A sampler that waits for a processor gets one when the program yields one, and would observe
  // the program waiting: beside a busy core, 3 ms of work and 3 ms of rest appeared as 24 to 76.
  // With a higher priority this thread does not wait, and uses a fraction of a percent of a
  // processor.
  const id_t tid = static_cast<id_t>(syscall(SYS_gettid));
  const int before = getpriority(PRIO_PROCESS, tid);
  const bool raised = setpriority(PRIO_PROCESS, tid, kNice) == 0;
  AskForShortSlices();
  while (AwaitNext()) {
    if (!CheckAlive(*setup_.api).ok()) return Leave();
    try {
      SampleOnce(detail::ReadTicks(setup_.uses_tsc));
    } catch (const std::exception&) {
      const MutexLock lock(&mutex_);
      if (!closed_) DropSamples();
    }
  }
  if (raised) (void)setpriority(PRIO_PROCESS, tid, before);
  (void)WithGil(*setup_.api, GilUse::kSample, [this] { reader_->Close(); });
}

template <typename Body>
bool Sampler::HoldGil(Body body) {
  const absl::Time asked = SteadyNow();
  absl::Time got = asked;
  bool done = false;
  const absl::Status ran = WithGil(*setup_.api, GilUse::kSample, [&] {
    got = SteadyNow();
    if (ShuttingDown()) return;
    body();
    done = true;
  });
  if (!ran.ok()) return false;
  const absl::Time released = SteadyNow();
  const MutexLock lock(&mutex_);
  ++costs_.takes;
  costs_.total_hold += released - got;
  costs_.longest_wait = std::max(costs_.longest_wait, got - asked);
  return done;
}

void Sampler::SampleOnce(uint64_t asked_ticks) {
  StackRound round;
  if (reader_->reads_without_gil()) {
    round = reader_->ReadWithoutGil(kReadBudget);
    if (round.unnamed && !HoldGil([&] { reader_->Name(kHoldBudget, &round); })) return;
  } else if (!HoldGil([&] { round = reader_->Read(kHoldBudget); })) {
    return;
  }

  const MutexLock lock(&mutex_);
  if (closed_) return;
  ++costs_.samples;
  if (!round.whole) ++costs_.unfinished;
  if (round.refused) ++costs_.refused;
  fold_->Add(asked_ticks, round);
}

bool Sampler::End(uint64_t end_ticks, absl::Duration timeout) {
  const MutexLock lock(&mutex_);
  stop_ = true;
  changed_.NotifyAll();
  const bool idle = changed_.WaitFor(
      &mutex_, timeout, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !busy_; });
  closed_ = true;
  if (fold_ == nullptr) return idle;
  try {
    fold_->Finish(end_ticks);
    lines_->Flush();
  } catch (const std::exception&) {
    DropSamples();
  }
  return idle;
}

void Sampler::FillReport(CollectorReport* report) const {
  const MutexLock lock(&mutex_);
  if (out_of_memory_) {
    report->state = CollectorState::kFailed;
    report->reason = "out of memory: the samples end early, and how many are lost is not known";
    report->account_unknown = true;
  }
  if (lines_ == nullptr) return;
  report->attempted = lines_->attempted();
  report->events = lines_->events();
  report->outside = lines_->outside();
  if (lines_->refused() > 0) report->lost_by_cause[LossCause::kStoreFull] = lines_->refused();
  if (left_) {
    report->state = CollectorState::kDegraded;
    report->reason = "Python was shutting down before the capture ended";
  }
  if (costs_.refused > 0) {
    report->state = CollectorState::kDegraded;
    report->reason = absl::StrCat(
        costs_.refused, " of ", costs_.samples,
        " samples were not taken: there were sub-interpreters, whose stacks Python would show "
        "while they change");
  }
  Log(LogLevel::kDebug,
      absl::StrCat("python samples: ", costs_.samples, "; GIL taken ", costs_.takes,
                   " times, held for ", absl::FormatDuration(costs_.total_hold),
                   ", waited for at most ", absl::FormatDuration(costs_.longest_wait)));
  if (costs_.unfinished > 0) {
    report->warnings.push_back(absl::StrCat(
        costs_.unfinished, " of ", costs_.samples,
        " rounds of samples did not come to all Python threads in the time that a round may take; "
        "the others came next"));
  }
  if (costs_.samples > 0 && !reader_->reads_without_gil() && costs_.refused == 0) {
    report->warnings.push_back(
        absl::StrCat("Python ", setup_.api->version,
                     ": stacks are read with the GIL, because reading them without it is not known "
                     "to be correct here: functions that compute for less than 5 ms between waits "
                     "are seen too rarely"));
  }
  if (fold_->cut_stacks() > 0) {
    report->warnings.push_back(absl::StrCat(
        fold_->cut_stacks(), " of ", fold_->stacks(), " Python stacks were deeper than ",
        StackReader::kMaxFrames, " frames: their outer frames are left out"));
  }
}

}  // namespace jobscope::python
