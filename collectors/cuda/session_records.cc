// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/session_records.h"

#include <algorithm>
#include <utility>

#include "collectors/cuda/tracing/state_log.h"
#include "common/clock/monotonic.h"

namespace jobscope::cuda {
namespace {

// Interval between flushes of open segments of quiet lines.
constexpr absl::Duration kWriteEvery = absl::Milliseconds(250);
// Age below which a record may still lie outside of the window, whose end becomes known a little
// late.
constexpr absl::Duration kFresh = absl::Milliseconds(50);
// Age of a correlation id's last record, beyond the time that records are held, at which it is
// forgotten.
constexpr absl::Duration kForgetAfter = absl::Seconds(8);

}  // namespace

SessionRecords::SessionRecords(const ArmRequest& request, const CuptiApi* api, bool uses_tsc,
                               const SessionLimits& limits, RecentSteps steps)
    : limits_(limits),
      ticks_(uses_tsc),
      clock_(
          [api]() -> uint64_t {
            uint64_t now_ns = 0;
            if (StateLog::Get().fatal()) return 0;  // the call could attach CUPTI again
            return api->cuptiGetTimestamp(&now_ns) == kCuptiSuccess ? now_ns : 0;
          },
          [this] { return ticks_.Now(); }, ticks_.ticks_per_second()),
      steps_(std::move(steps)),
      calls_(api),
      writer_(request.sink, request.names, &calls_, &kernels_, &threads_, &window_),
      held_(&window_, &steps_, &calls_, &writer_, &account_),
      reader_(api, &clock_, &kernels_, &threads_, &held_, &account_) {}

void SessionRecords::BeginWindow(const StartRequest& request) {
  ticks_.SetRate(request.map.ticks_per_second());
  clock_.SetRate(request.map.ticks_per_second());
  window_.start_ticks = request.start_ticks;
  window_.end_ticks = request.end_ticks;
  window_.map = request.map;
  clock_.AddKnot();
}

void SessionRecords::BeginWindowNow() {
  window_.start_ticks = std::max(window_.start_ticks, ticks_.Now());
}

void SessionRecords::BeginWriting() {
  steps_.Update();
  last_write_ticks_ = ticks_.Now();
}

void SessionRecords::AddKnots() {
  clock_.AddKnot();
  steps_.Update();
}

bool SessionRecords::ReadAndWrite(absl::Duration budget, uint64_t now_ticks) {
  const bool all = reader_.Read(budget, SIZE_MAX);
  held_.EmitUntil(ticks_.Before(now_ticks, limits_.hold), now_ticks);
  if (held_.bytes() > limits_.held_bytes) {
    held_.EmitUntil(ticks_.Before(now_ticks, kFresh), now_ticks);
  }
  if (now_ticks - last_write_ticks_ >= ticks_.Ticks(kWriteEvery)) {
    last_write_ticks_ = now_ticks;
    writer_.Flush();
    held_.ForgetOlderThan(ticks_.Before(now_ticks, limits_.hold + kForgetAfter),
                          ticks_.Before(now_ticks, limits_.hold));
  }
  return all;
}

void SessionRecords::EndWindow(uint64_t end_ticks) {
  window_.end_ticks = std::max(window_.start_ticks, std::min(window_.end_ticks, end_ticks));
}

bool SessionRecords::ReadAtTheEnd(absl::Duration budget) {
  const absl::Time deadline = SteadyNow() + budget;
  while (true) {
    const absl::Duration left = std::max(deadline - SteadyNow(), absl::ZeroDuration());
    const bool all = reader_.Read(left, limits_.held_bytes);
    if (held_.bytes() > limits_.held_bytes) {
      const uint64_t now = ticks_.Now();
      held_.EmitUntil(ticks_.Before(now, kFresh), now);
    }
    if (all || SteadyNow() >= deadline) return all;
  }
}

void SessionRecords::WriteSettled() {
  const uint64_t now = ticks_.Now();
  held_.EmitSettled(ticks_.Before(now, kFresh), now);
  writer_.Flush();
}

void SessionRecords::ReadRest(absl::Time deadline) {
  if (ReadAtTheEnd(std::max(deadline - SteadyNow(), absl::ZeroDuration()))) return;
  account_.unread_records += reader_.Discard();
}

void SessionRecords::Close(uint64_t dropped, bool all_came, CollectorReport* report) {
  held_.EmitUntil(UINT64_MAX, ticks_.Now());
  held_.Close(dropped, all_came);
  writer_.Flush();
  if (const uint64_t refused = writer_.refused(); refused > 0) {
    account_.Lose(LossCause::kStoreFull, refused);
  }
  account_.allocations_left_out = writer_.allocations_left_out();
  account_.unnamed_kernels = kernels_.unnamed();
  account_.FillReport(report);
  held_.WriteOrder();
  writer_.Flush();
  report->events = writer_.appended();
}

}  // namespace jobscope::cuda
