// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/calls/call_tracer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "collectors/python/bridge/gil.h"
#include "collectors/python/calls/call_hooks.h"
#include "collectors/python/calls/call_ring.h"
#include "common/clock/monotonic.h"
#include "common/threads/thread_name.h"
#include "jobscope/detail/ticks.h"

namespace jobscope::python {
namespace {

constexpr size_t kBatch = 1024;
constexpr int64_t kTellLatePs = 1'000'000'000;
// Time limit for reading stacks in one hold of the GIL.
constexpr absl::Duration kHoldBudget = absl::Microseconds(500);
// Time limit for all holds at the end, of the 1 s that the collector waits. A busy program lets 60
// holds pass in it.
constexpr absl::Duration kWriteOpenLimit = absl::Milliseconds(400);

// What is missing in part. Of several reasons, the later ones become warnings.
void Degrade(std::string reason, CollectorReport* report) {
  if (report->state == CollectorState::kDegraded) {
    report->warnings.push_back(std::move(reason));
    return;
  }
  report->state = CollectorState::kDegraded;
  report->reason = std::move(reason);
}

}  // namespace

absl::Status CallTracer::Prepare() {
  absl::Status status;
  std::vector<CallRecord> ring(CallRing::kRecords);
  const absl::Status ran = WithGil(*setup_.api, GilUse::kArm, [&] {
    status = CheckNoProfiler(*setup_.api, *setup_.trace);
    if (!status.ok()) return;
    calls_ =
        std::make_shared<CallSession>(*setup_.api, *setup_.trace, setup_.uses_tsc, std::move(ring));
    reader_ = std::make_unique<StackReader>(*setup_.api, *setup_.trace, calls_->codes());
    status = reader_->Open();
  });
  return ran.ok() ? status : ran;
}

void CallTracer::LookForGreenlets() {
  const Api& api = *setup_.api;
  Object* const module = api.Dict_GetItemString(api.Import_GetModuleDict(), "greenlet");
  if (module != nullptr && module != api.none) greenlets_.store(true, std::memory_order_relaxed);
}

void CallTracer::WriteOpen() {
  const absl::Time until = SteadyNow() + kWriteOpenLimit;
  bool more = true;
  while (more) {
    more = false;
    (void)WithGil(*setup_.api, GilUse::kRemove, [&] {
      if (!calls_->active()) return;
      const uint64_t now = detail::ReadTicks(setup_.uses_tsc);
      const StackRound stacks = reader_->Read(kHoldBudget);
      calls_->WriteOpen(stacks, now);
      if (stacks.refused) stacks_refused_.store(true, std::memory_order_relaxed);
      more = stacks.unread > 0 && SteadyNow() < until;
      if (!more) unread_.store(stacks.unread, std::memory_order_relaxed);
    });
  }
}

void CallTracer::Install(CallSession::Limits limits) {
  absl::Status status;
  const absl::Status ran = WithGil(*setup_.api, GilUse::kInstall, [&] {
    // Without releasing the GIL in between: a thread that is not listed begins its first call
    // later.
    status = InstallHooks(*setup_.api, *setup_.trace, calls_);
    if (!status.ok()) return;
    LookForGreenlets();
    const StackRound threads = reader_->List();
    if (threads.refused) stacks_refused_.store(true, std::memory_order_relaxed);
    if (!calls_->Activate(limits, threads.idents)) {
      // The session ended while waiting for the GIL, and nobody would remove the hooks later.
      RemoveHooks(*setup_.api, *setup_.trace);
      reader_->Close();
      return;
    }
    installed_ticks_.store(detail::ReadTicks(setup_.uses_tsc), std::memory_order_release);
  });
  install_status_ = ran.ok() ? status : ran;
  installed_.store(true, std::memory_order_release);
}

void CallTracer::Remove() {
  WriteOpen();
  // While Python shuts down, the hooks remove themselves.
  (void)WithGil(*setup_.api, GilUse::kRemove, [this] {
    RemoveHooks(*setup_.api, *setup_.trace);
    calls_->Deactivate();
    LookForGreenlets();
    reader_->Close();
  });
}

void CallTracer::Begin(const TraceWindow& window) {
  window_ = window;
  batch_.resize(kBatch);
  lines_ = std::make_unique<PythonLines>(setup_.sink, setup_.names, calls_->codes(),
                                         PythonLines::Kind::kCalls);
}

CallSession::Limits CallTracer::LimitsFor(const TickMap& map) const {
  CallSession::Limits limits;
  limits.min_ticks = static_cast<uint64_t>(static_cast<double>(setup_.options.min_call_us) * 1e-6 *
                                           map.ticks_per_second());
  limits.max_calls = static_cast<uint64_t>(setup_.options.max_calls);
  return limits;
}

template <typename Body>
void CallTracer::OrDropLines(Body body) {
  try {
    body();
  } catch (...) {
    lines_.reset();
    throw;
  }
}

void CallTracer::Drain() {
  if (lines_ != nullptr && !setup_.sink->Full()) OrDropLines([this] { TakeAll(); });
}

void CallTracer::TakeAll() {
  // At most one ring's content, because calls continue meanwhile.
  for (size_t taken = 0; taken < CallRing::kRecords;) {
    const size_t count = calls_->Take(batch_.data(), batch_.size());
    if (count == 0) return;
    taken += count;
    for (size_t i = 0; i < count; ++i) {
      const CallRecord& record = batch_[i];
      const TracedThread& thread = calls_->thread(record.thread);
      FunctionSpan span;
      span.begin_ticks = record.begin_ticks;
      span.end_ticks = record.end_ticks;
      span.code = record.code;
      span.depth = record.depth;
      span.truncated = record.truncated != 0;
      lines_->Add(thread.tid, NameOf(thread), span, window_);
    }
  }
}

std::string_view CallTracer::NameOf(const TracedThread& thread) {
  if (thread.named.load(std::memory_order_acquire)) return thread.name.data();
  if (thread.index >= os_names_.size()) os_names_.resize(thread.index + 1);
  std::string& name = os_names_[thread.index];
  if (name.empty()) {
    name = ThreadName(thread.tid);
    if (name.empty()) name = "thread";  // it has ended
  }
  return name;
}

void CallTracer::End(uint64_t end_ticks) {
  calls_->Deactivate();
  if (lines_ == nullptr) return;  // the session ended before it began
  window_.end_ticks = std::min(window_.end_ticks, end_ticks);
  OrDropLines([this] {
    TakeAll();
    lines_->Flush();
  });
}

void CallTracer::FillReport(CollectorReport* report) const {
  if (lines_ == nullptr) return;
  // Records in the ring arrived after the last drain.
  const uint64_t lost = calls_->lost();
  report->attempted = lines_->attempted() + lost;
  report->events = lines_->events();
  report->outside = lines_->outside();
  if (lost > 0) report->lost_by_cause[LossCause::kBufferFull] = lost;
  if (lines_->refused() > 0) report->lost_by_cause[LossCause::kStoreFull] = lines_->refused();
  AddReasons(report);
  AddWarnings(report);
}

void CallTracer::AddReasons(CollectorReport* report) const {
  if (const uint64_t capped = calls_->capped_ticks(); capped != 0) {
    report->state = CollectorState::kDegraded;
    report->reason = absl::StrFormat(
        "after %d Python calls, %.1f s into the capture, call tracing disabled itself: raise "
        "JOBSCOPE_PYTHON_MAX_CALLS, or JOBSCOPE_PYTHON_MIN_US (%d now)",
        setup_.options.max_calls, static_cast<double>(window_.map.ToPs(capped)) * 1e-12,
        setup_.options.min_call_us);
  }
  if (const uint64_t ended = calls_->out_of_memory_ticks(); ended != 0) {
    report->state = CollectorState::kDegraded;
    report->reason =
        absl::StrFormat("%.1f s into the capture, call tracing disabled itself: out of memory",
                        static_cast<double>(window_.map.ToPs(ended)) * 1e-12);
  }
  if (greenlets_.load(std::memory_order_relaxed)) {
    Degrade(
        "the program has the module greenlet: calls between which a thread switches greenlets are "
        "paired wrongly, and their times are false. Use --python_tracer_level=1",
        report);
  }
  if (const size_t threads = unread_.load(std::memory_order_relaxed); threads > 0) {
    Degrade(absl::StrCat("calls that were open at the end are left out, of ", threads,
                         " threads: reading all stacks takes too long"),
            report);
  }
  if (calls_->threads_cut() > 0) {
    Degrade(absl::StrCat("calls that were open at the end are left out, of ", calls_->threads_cut(),
                         " threads: their stacks were deeper than ", StackReader::kMaxFrames,
                         " frames, of which the inner ones are read"),
            report);
  }
}

void CallTracer::AddWarnings(CollectorReport* report) const {
  // Installing acquires the GIL, which a busy program releases within milliseconds.
  const int64_t late_ps =
      window_.map.ToPs(installed_ticks()) - window_.map.ToPs(window_.start_ticks);
  if (installed_ticks() != 0 && late_ps > kTellLatePs) {
    report->warnings.push_back(absl::StrFormat("Python calls are recorded from %.1f ms on",
                                               static_cast<double>(late_ps) * 1e-9));
  }
  if (stacks_refused_.load(std::memory_order_relaxed)) {
    report->warnings.emplace_back(
        "calls that were open at the start or the end are left out: there were sub-interpreters, "
        "whose stacks Python would show while they change");
  }
  if (calls_->short_calls() > 0) {
    report->warnings.push_back(absl::StrCat(calls_->short_calls(),
                                            " Python calls were shorter than ",
                                            setup_.options.min_call_us, " us and are left out"));
  }
  if (calls_->unpaired() > 0) {
    report->warnings.push_back(
        absl::StrCat(calls_->unpaired(),
                     " Python calls are left out, because only their start or their end is "
                     "known, or an outer call ended first"));
  }
  if (calls_->too_deep() > 0) {
    report->warnings.push_back(absl::StrCat(calls_->too_deep(),
                                            " Python calls were nested deeper than ",
                                            TracedThread::kMaxDepth, " and are left out"));
  }
  if (calls_->threads_refused() > 0) {
    report->warnings.push_back(absl::StrCat("Python calls of ", calls_->threads_refused(),
                                            " threads beyond ", CallSession::kMaxThreads,
                                            " are left out"));
  }
}

}  // namespace jobscope::python
