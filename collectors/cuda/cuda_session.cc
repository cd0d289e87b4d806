// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/cuda_session.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectors/cuda/discarded_records.h"
#include "collectors/cuda/libraries/other_profilers.h"
#include "collectors/cuda/session_warnings.h"
#include "collectors/cuda/tracing/left_kinds.h"
#include "collectors/cuda/tracing/state_log.h"
#include "common/clock/monotonic.h"

namespace jobscope::cuda {
namespace {

// Interval between two reads of the buffers, and their time limit: Drain must return within 100 ms.
constexpr absl::Duration kDrainEvery = absl::Milliseconds(100);
constexpr absl::Duration kDrainBudget = absl::Milliseconds(50);
// Time after the end during which CUPTI may still return buffers.
constexpr absl::Duration kLastBuffers = absl::Milliseconds(50);
// Time limit for CUPTI's calls of the start.
constexpr absl::Duration kStartLimit = absl::Milliseconds(300);
// Minimum share of Stop's time for a call of CUPTI.
constexpr absl::Duration kLeastCallLimit = absl::Milliseconds(100);

absl::Duration Until(absl::Time deadline) {
  return std::max(deadline - SteadyNow(), absl::ZeroDuration());
}

}  // namespace

CudaSession::CudaSession(const ArmRequest& request, const CudaSessionOptions& options)
    : request_(request),
      api_(options.api),
      limits_(options.limits),
      finalize_(options.finalize),
      graphs_seen_(options.graphs_seen),
      pool_(BufferPool::Get()),
      tracing_(options.api, options.tracing, options.calls),
      records_(request, options.api, options.uses_tsc, options.limits, options.steps) {}

CudaSession::~CudaSession() {
  if (abandoned_) return;
  pool_.SetMode(BufferPool::Mode::kIdle);
}

absl::Status CudaSession::Arm() {
  (void)pool_.ForgetShortage();
  (void)records_.Discard();  // buffers that an earlier session left behind
  DiscardKept(api_);
  pool_.SetMode(BufferPool::Mode::kArmed);
  const absl::Status status = tracing_.Begin(limits_.begin);
  if (!status.ok()) {
    abandoned_ = true;
    pool_.SetMode(BufferPool::Mode::kIdle);
    return status;
  }
  return absl::OkStatus();
}

void CudaSession::LookForTorchProfiler() {
  torch_profiler_recorded_ = torch_profiler_recorded_ || TorchProfilerIsKnownToRecord();
}

absl::Status CudaSession::Start(const StartRequest& request) {
  phase_ = Phase::kRecording;
  started_ = true;
  records_.BeginWindow(request);
  // Buffers were recycled between Arm and here; records dropped then are not from this window.
  pool_.SetMode(BufferPool::Mode::kRecording);
  (void)tracing_.Start(kStartLimit);
  // If Start comes late, records from before are incomplete.
  if (pool_.ForgetShortage()) records_.BeginWindowNow();
  records_.BeginWriting();
  last_flush_ticks_ = records_.ticks().Now();
  return absl::OkStatus();
}

absl::Duration CudaSession::Drain() {
  if (phase_ != Phase::kRecording || abandoned_) return absl::InfiniteDuration();
  records_.AddKnots();
  LookForTorchProfiler();
  const uint64_t now = records_.ticks().Now();
  if (tracing_.busy_for() > limits_.flush_hangs) {
    Abandon();
  } else if (now - last_flush_ticks_ >= records_.ticks().Ticks(limits_.flush_every)) {
    last_flush_ticks_ = now;
    tracing_.FlushSoon();
  }
  const bool all = records_.ReadAndWrite(kDrainBudget, now);
  lost_so_far_.store(records_.lost(), std::memory_order_relaxed);
  if (abandoned_) return absl::InfiniteDuration();
  return all ? kDrainEvery : absl::ZeroDuration();
}

absl::Status CudaSession::Stop(uint64_t end_ticks) {
  if (std::exchange(phase_, Phase::kEnded) != Phase::kRecording) {
    if (!abandoned_ && !tracing_.End(/*all_came=*/true, limits_.end)) Abandon();
    // Discards what was recorded since Arm; Report then releases the memory.
    pool_.EndRecording(0);
    (void)records_.Discard();
    return absl::OkStatus();  // Report detaches
  }
  records_.EndWindow(end_ticks);
  const absl::Time deadline = SteadyNow() + limits_.stop;
  records_.AddKnots();
  LookForTorchProfiler();
  const uint64_t end = pool_.Mark();
  AwaitWork(deadline, end);
  records_.EndOfWork(/*all_came=*/!work_in_flight_);
  const absl::Duration rest = std::max(Until(deadline), kLeastCallLimit);
  const uint64_t mark = pool_.Mark();
  if (!abandoned_ && !tracing_.End(all_came_, std::min(rest, limits_.end))) Abandon();
  if (LeftKinds::Get().kernels_stay()) {
    TakeLastKernels(deadline, mark);
  } else {
    TakeLastRecords(deadline, end);
  }
  records_.AddKnots();
  // While a call hangs, nothing that it writes may be read.
  records_.Close(abandoned_ ? 0 : tracing_.dropped(), all_came_, &report_);
  AddWarnings();
  if (!AppendLoss(report_, request_.sink)) {
    report_.warnings.push_back("the store had no room for the account of the GPU part");
  }
  return absl::OkStatus();
}

// Tracing stays on: work whose kind is disabled in flight gets no times. CUPTI withholds a buffer
// while anything in it has not ended, including the calls in it. So all work of the window has
// ended once each buffer that CUPTI held at its end is back and no record in them launched
// unfinished work. A call that is under way at the end writes its record later, perhaps into a
// buffer that CUPTI takes after the first flush: those that it has at the second are awaited, too.
// And one more flush must bring nothing of the window.
void CudaSession::AwaitWork(absl::Time stop_deadline, uint64_t end) {
  const absl::Time deadline = SteadyNow() + limits_.work_in_flight;
  uint64_t mark = end;
  for (int round = 1;; ++round) {
    if (round == 2) mark = pool_.Mark();
    const absl::Duration left = std::max(Until(stop_deadline), kLeastCallLimit);
    if (abandoned_ || !tracing_.Flush(std::min(left, limits_.end))) {
      work_in_flight_ = true;  // also if it was not, a round ago
      return Abandon();
    }
    const uint64_t taken = records_.taken();
    const bool all = records_.ReadAtTheEnd(Until(stop_deadline));
    // Before Stop begins to wait: a process that shuts down does not wait that long.
    if (round == 1) records_.WriteSettled();
    work_in_flight_ = !all || pool_.LentWithRecords(end) > 0 || records_.InFlight() > 0;
    const bool quiet = round > 1 && records_.taken() == taken;
    all_came_ = !work_in_flight_ && quiet && pool_.LentWithRecords(mark) == 0;
    const StateLog& state = StateLog::Get();
    if (all_came_ || SteadyNow() >= deadline || state.exits() || state.fatal()) return;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

// If all came, what CUPTI still holds is of later work. Otherwise its own thread may deliver forced
// buffers a little later. What is returned until the buffers are written off is read here, what is
// returned after that counts as late.
void CudaSession::TakeLastRecords(absl::Time deadline, uint64_t end) {
  if (all_came_) {
    pool_.EndRecording(end);
    return records_.ReadRest(deadline);
  }
  const absl::Time last = SteadyNow() + kLastBuffers;
  while (!abandoned_ && pool_.LentWithRecords() > 0 && SteadyNow() < last) {
    absl::SleepFor(absl::Milliseconds(1));
  }
  pool_.EndRecording(UINT64_MAX);
  overdue_buffers_ = pool_.WriteOff();
  records_.ReadRest(deadline);
}

// Where kernels are still traced, some calls come only with the last flush, and their kernels later
// (observed with CUPTI 12.9). Buffers from after `mark` hold nothing of the session.
void CudaSession::TakeLastKernels(absl::Time deadline, uint64_t mark) {
  const absl::Time last = SteadyNow() + (work_in_flight_ ? kLastBuffers : limits_.work_in_flight);
  while (!abandoned_) {
    const bool all = records_.ReadAtTheEnd(Until(deadline));
    if (!all_came_) overdue_buffers_ = pool_.LentWithRecords(mark);
    if (all && overdue_buffers_ == 0 && records_.InFlight() == 0) break;
    const StateLog& state = StateLog::Get();
    if (SteadyNow() >= std::min(last, deadline) || state.exits() || state.fatal()) break;
    absl::SleepFor(absl::Milliseconds(5));
    if (!tracing_.Flush(std::max(Until(deadline), kLeastCallLimit))) Abandon();
  }
  // Not written off: CUPTI may go on filling them. From 12.9 on Detach takes them back.
  if (!all_came_ && !pool_.null_is_safe()) pool_.Disregard(mark);
  pool_.EndRecording(0);
  records_.ReadRest(deadline);
}

void CudaSession::Abandon() {
  if (abandoned_) return;
  abandoned_ = true;
  hang_reason_ = tracing_.HangReason();
  tracing_.Abandon();
  pool_.SetMode(BufferPool::Mode::kIdle);
}

void CudaSession::Degrade(std::string reason) {
  report_.state = CollectorState::kDegraded;
  report_.reason = std::move(reason);
}

void CudaSession::AddWarnings() {
  report_.warnings = tracing_.TakeWarnings();
  for (std::string& text : SessionWarnings(pool_.TakeCounts(), records_.account(),
                                           records_.clock_steps(), records_.order())) {
    report_.warnings.push_back(std::move(text));
  }
  if (api_->version >= kCupti14_0) {
    Degrade(absl::StrCat("CUPTI ", CuptiVersionText(api_->version),
                         " is newer than the versions that this server was tested with"));
  }
  // Without work in flight these are of later work. Not so where kernels stay traced: the buffers
  // that count there are from before the last flush.
  if (overdue_buffers_ > 0 && (work_in_flight_ || LeftKinds::Get().kernels_stay())) {
    Degrade(absl::StrCat(overdue_buffers_,
                         " buffers with records did not come back from CUPTI: these records are "
                         "not in the trace, nor counted"));
    report_.warnings.push_back(report_.reason);
  }
  if (torch_profiler_recorded_) {
    Degrade(TorchProfilerWarning());
    report_.warnings.push_back(report_.reason);
  }
  if (std::string fatal = tracing_.FatalError(); !fatal.empty()) Degrade(std::move(fatal));
  if (abandoned_) Degrade(hang_reason_);
}

void CudaSession::Detach() {
  if (abandoned_ || std::exchange(detached_, true)) return;
  FinalizeDecision decision = DecideFinalize(api_->version, graphs_seen(), finalize_);
  if (decision.finalize && !started_) {
    // Nothing was read: neither what is in flight is known, nor the GPUs, nor CUDA graphs.
    decision = {false, "cuptiFinalize is not called: the capture ended before its start"};
  }
  if (decision.finalize && work_in_flight_) {
    decision = {false, "cuptiFinalize is not called: it would wait for work that is in flight"};
  }
  if (decision.finalize && records_.several_devices()) {
    // It waits for all contexts, on a thread of the application: for a kernel of one GPU that waits
    // for one of another GPU, which that thread was about to launch.
    decision = {false, "cuptiFinalize is not called: the process uses several GPUs"};
  }
  if (!tracing_.Detach(decision.finalize, limits_.detach_wait, limits_.detach)) {
    Abandon();
    return Degrade(hang_reason_);
  }
  for (std::string& text : tracing_.TakeWarnings()) report_.warnings.push_back(std::move(text));
  if (!decision.reason.empty() && !tracing_.finalized()) {
    report_.warnings.push_back(absl::StrCat(
        "CUPTI stays loaded into CUDA, which may slow it a little; ", decision.reason));
  }
}

// A session that was abandoned because a call hangs has not set LeftKinds::kernels_stay.
bool CudaSession::KernelsStay() const {
  if (StateLog::Get().fatal()) return false;  // CUPTI has detached itself
  return LeftKinds::Get().kernels_stay() ||
         (abandoned_ && LeftKinds::NeverDisable(api_->version, kKindConcurrentKernel));
}

CollectorReport CudaSession::Report() {
  Detach();
  if (KernelsStay()) report_.warnings.push_back(KernelsStayWarning(api_->version));
  return report_;
}

}  // namespace jobscope::cuda
