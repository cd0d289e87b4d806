// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/sampler.h"

#include <algorithm>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectors/python/gil.h"
#include "jobscope/detail/ticks.h"

namespace jobscope::python {
namespace {

// With the reading of the last stack the GIL is held for at most a millisecond.
constexpr absl::Duration kHoldBudget = absl::Microseconds(700);

}  // namespace

absl::Status Sampler::Prepare() {
  absl::Status status;
  const absl::Status ran = WithGil(*setup_.api, [this, &status] {
    codes_ = std::make_unique<CodeTable>(*setup_.api, *setup_.trace);
    reader_ = std::make_unique<StackReader>(*setup_.api, *setup_.trace, codes_.get());
    status = reader_->Open();
  });
  return ran.ok() ? status : ran;
}

void Sampler::Begin(const TraceWindow& window) {
  const std::lock_guard<std::mutex> lock(mutex_);
  lines_ = std::make_unique<PythonLines>(setup_.sink, setup_.names, codes_.get(),
                                         PythonLines::Kind::kSamples);
  fold_ = std::make_unique<SampleFold>(lines_.get(), window);
  next_ = absl::Now();
  changed_.notify_all();
}

bool Sampler::AwaitNext() {
  std::unique_lock<std::mutex> lock(mutex_);
  sampling_ = false;
  changed_.notify_all();
  changed_.wait(lock, [this] { return stop_ || fold_ != nullptr; });
  const auto pause = [this] { return absl::ToChronoNanoseconds(next_ - absl::Now()); };
  while (!stop_ && pause().count() > 0) changed_.wait_for(lock, pause());
  if (stop_) return false;
  // A sampler that is late lets the missed ones go.
  const absl::Duration period = absl::Seconds(1) / setup_.hz;
  next_ = std::max(next_ + period, absl::Now() + period / 2);
  sampling_ = true;
  return true;
}

// One thread state for the whole session: making one per sample would cost more than the sample.
void Sampler::Run() {
  const Api& api = *setup_.api;
  if (!CheckAlive(api).ok()) return;
  const int gil = api.GILState_Ensure();
  ThreadState* state = api.Eval_SaveThread();
  while (AwaitNext()) {
    if (!CheckAlive(api).ok()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      left_ = true;
      sampling_ = false;
      changed_.notify_all();
      return;
    }
    SampleOnce(detail::ReadTicks(setup_.uses_tsc), &state);
  }
  if (!CheckAlive(api).ok()) return;
  api.Eval_RestoreThread(state);
  reader_->Close();
  api.GILState_Release(gil);
}

void Sampler::SampleOnce(uint64_t asked_ticks, ThreadState** state) {
  const Api& api = *setup_.api;
  const absl::Time asked = absl::Now();
  api.Eval_RestoreThread(*state);
  const absl::Time got = absl::Now();
  StackRound round;
  if (!Leaving()) round = reader_->Read(kHoldBudget);
  const absl::Time done = absl::Now();
  *state = api.Eval_SaveThread();

  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return;
  ++costs_.samples;
  if (!round.whole) ++costs_.unfinished;
  costs_.longest_hold = std::max(costs_.longest_hold, done - got);
  costs_.total_hold += done - got;
  costs_.longest_wait = std::max(costs_.longest_wait, got - asked);
  fold_->Add(asked_ticks, round);
}

bool Sampler::End(uint64_t end_ticks, absl::Duration patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  const bool idle =
      changed_.wait_for(lock, absl::ToChronoMicroseconds(patience), [this] { return !sampling_; });
  closed_ = true;
  if (fold_ != nullptr) {
    fold_->Finish(end_ticks);
    lines_->Flush();
  }
  return idle;
}

void Sampler::FillReport(CollectorReport* report) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (lines_ == nullptr) return;
  report->attempted = lines_->attempted();
  report->events = lines_->events();
  report->outside = lines_->outside();
  if (lines_->refused() > 0) report->lost_by_cause["store_full"] = lines_->refused();
  if (left_) {
    report->state = "degraded";
    report->reason = "Python was shutting down before the capture ended";
  }
  if (costs_.unfinished > 0) {
    report->warnings.push_back(absl::StrCat(
        costs_.unfinished, " of ", costs_.samples,
        " rounds of samples did not come to all Python threads in the time for which Python's lock "
        "is held at most; the others came next"));
  }
  if (fold_->cut_stacks() > 0) {
    report->warnings.push_back(absl::StrCat(
        fold_->cut_stacks(), " of ", fold_->stacks(), " Python stacks were deeper than ",
        StackReader::kMaxFrames, " frames: their outer frames are left out"));
  }
}

}  // namespace jobscope::python
