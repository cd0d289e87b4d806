// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/session_clocks.h"

#include "jobscope/v1/item.pb.h"

namespace jobscope::host {

void SessionClocks::Begin(const TickMap& map, const ClockSample& clocks) {
  watch_ = ClockWatch(map, clocks);
  Append(clocks);
}

bool SessionClocks::IsMapValid(const ClockSample& now) {
  if (!uses_tsc_ || watch_.Holds(now)) return true;
  if (!jumped_) events_->OnClockJumped(watch_.last_good_ticks());
  jumped_ = true;
  return false;
}

void SessionClocks::Append(const ClockSample& sample) {
  appended_ticks_ = sample.ticks;
  v1::Clock clock;
  clock.set_ticks(sample.ticks);
  clock.set_monotonic_ns(sample.monotonic_ns);
  clock.set_realtime_ns(sample.realtime_ns);
  clock.set_bracket_ticks(sample.bracket_ticks);
  // A failure only costs one sample; nothing depends on a single one.
  (void)sink_->Append(xspace::ItemKind::kClock, clock.SerializeAsString());
}

}  // namespace jobscope::host
