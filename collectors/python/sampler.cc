// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/sampler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "collectors/python/gil.h"
#include "collectors/python/main_thread_sample.h"
#include "common/clock.h"
#include "common/log.h"
#include "jobscope/detail/ticks.h"

namespace jobscope::python {
namespace {

using Clock = std::chrono::steady_clock;

// With the reading of the last stack the GIL is held for at most a millisecond.
constexpr absl::Duration kHoldBudget = absl::Microseconds(500);
// A main thread that runs Python code comes by within microseconds.
constexpr absl::Duration kMainThreadPatience = absl::Milliseconds(1);

// How long a thread that wants the GIL waits before it has the one that computes give it up: 5 ms,
// unless the program has said otherwise. Within that time most programs wait for something, so
// that a sample would tell of that wait and not of what was computed.
constexpr double kShortIntervalSeconds = 0.001;

// All with the GIL.
class SwitchInterval {
 public:
  explicit SwitchInterval(const Api& api) : api_(api) {}

  void Shorten() {
    before_ = Get();
    if (before_ > kShortIntervalSeconds) Set(kShortIntervalSeconds);
  }
  // Unless the program has set one of its own meanwhile.
  void Restore() {
    if (before_ > kShortIntervalSeconds && std::abs(Get() - kShortIntervalSeconds) < 1e-5) {
      Set(before_);
    }
  }

 private:
  Object* Sys() const { return api_.Dict_GetItemString(api_.Import_GetModuleDict(), "sys"); }
  double Get() const {
    const Ref value(api_, CallMethod(api_, Sys(), "getswitchinterval", {}));
    const double seconds = value ? api_.Float_AsDouble(value.get()) : 0;
    api_.Err_Clear();
    return seconds;
  }
  void Set(double seconds) const {
    const Ref done(api_,
                   CallMethod(api_, Sys(), "setswitchinterval", {api_.Float_FromDouble(seconds)}));
    api_.Err_Clear();
  }

  const Api& api_;
  double before_ = 0;
};

}  // namespace

absl::Status Sampler::Prepare() {
  absl::Status status;
  const absl::Status ran = WithGil(*setup_.api, GilUse::kArm, [this, &status] {
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
  next_ = Clock::now();
  changed_.notify_all();
}

bool Sampler::AwaitNext() {
  std::unique_lock<std::mutex> lock(mutex_);
  busy_ = false;
  changed_.notify_all();
  changed_.wait(lock, [this] { return stop_ || fold_ != nullptr; });
  changed_.wait_until(lock, next_, [this] { return stop_; });
  if (stop_) return false;
  // A sampler that is late lets the missed ones go.
  const auto period = std::chrono::nanoseconds(std::chrono::seconds(1)) / setup_.hz;
  next_ = std::max(next_ + period, Clock::now() + period / 2);
  busy_ = true;
  return true;
}

void Sampler::Leave() {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_ = true;
  busy_ = false;
  changed_.notify_all();
}

// One thread state for the whole session: making one per sample would cost more than the sample.
void Sampler::Run() {
  const Api& api = *setup_.api;
  if (!CheckAlive(api).ok()) return Leave();
  const int gil = api.GILState_Ensure();
  SwitchInterval interval(api);
  if (api.minor < kFirstWithPromptCalls) interval.Shorten();
  ThreadState* state = api.Eval_SaveThread();
  while (AwaitNext()) {
    if (!CheckAlive(api).ok()) return Leave();
    SampleOnce(detail::ReadTicks(setup_.uses_tsc), &state);
  }
  if (!CheckAlive(api).ok()) return;
  api.Eval_RestoreThread(state);
  interval.Restore();
  reader_->Close();
  api.GILState_Release(gil);
}

void Sampler::SampleOnce(uint64_t asked_ticks, ThreadState** state) {
  const Api& api = *setup_.api;
  const uint64_t asked_ns = MonotonicNs();
  uint64_t got_ns = asked_ns;
  std::optional<HeldRound> held;
  if (api.minor >= kFirstWithPromptCalls) {
    held = ReadOnMainThread(*setup_.trace, reader_.get(), kHoldBudget, kMainThreadPatience);
  }
  const bool by_main_thread = held.has_value();
  if (!by_main_thread) {
    api.Eval_RestoreThread(*state);
    got_ns = MonotonicNs();
    const GilHold hold(GilUse::kSample);
    held.emplace();
    if (!Leaving()) held->round = reader_->Read(kHoldBudget);
    held->hold = absl::Nanoseconds(hold.End());
    *state = api.Eval_SaveThread();
  }

  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) return;
  ++costs_.samples;
  if (by_main_thread) ++costs_.by_main_thread;
  if (!held->round.whole) ++costs_.unfinished;
  if (held->round.refused) ++costs_.refused;
  costs_.total_hold += held->hold;
  costs_.longest_wait = std::max(costs_.longest_wait, absl::Nanoseconds(got_ns - asked_ns));
  fold_->Add(asked_ticks, held->round);
}

bool Sampler::End(uint64_t end_ticks, absl::Duration patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  stop_ = true;
  changed_.notify_all();
  const bool idle =
      changed_.wait_for(lock, absl::ToChronoMicroseconds(patience), [this] { return !busy_; });
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
  if (costs_.refused > 0) {
    report->state = "degraded";
    report->reason = absl::StrCat(
        costs_.refused, " of ", costs_.samples,
        " samples were not taken: there were sub-interpreters, whose stacks Python would show "
        "while they change");
  }
  Log(LogLevel::kDebug,
      absl::StrCat("python samples: ", costs_.samples, ", ", costs_.by_main_thread,
                   " by the main thread; Python's lock held for ",
                   absl::FormatDuration(costs_.total_hold), ", waited for at most ",
                   absl::FormatDuration(costs_.longest_wait)));
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
