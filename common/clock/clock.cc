// SPDX-License-Identifier: Apache-2.0
#include "common/clock/clock.h"

#include <time.h>

#include <atomic>
#include <cmath>

#include "common/clock/clock_for_testing.h"
#include "jobscope/detail/ticks.h"

namespace jobscope {
namespace {

using uint128 = unsigned __int128;

std::atomic<int64_t> g_realtime_shift_ns{0};
std::atomic<int64_t> g_monotonic_shift_ns{0};
std::atomic<int64_t> g_boottime_shift_ns{0};
std::atomic<int64_t> g_ticks_shift{0};
std::atomic<double> g_rate{1};
std::atomic<int64_t> g_rate_since_ns{0};
std::atomic<int64_t> g_rate_gained_ns{0};  // before g_rate_since_ns

int64_t ReadNs(clockid_t clock) {
  struct timespec ts;
  clock_gettime(clock, &ts);
  return int64_t{ts.tv_sec} * 1'000'000'000 + ts.tv_nsec;
}

// Returns by how much a clock that reads `now_ns` is ahead because of its rate.
int64_t GainedNs(int64_t now_ns) {
  const double rate = g_rate.load(std::memory_order_acquire);
  const int64_t gained_ns = g_rate_gained_ns.load(std::memory_order_relaxed);
  if (rate == 1) return gained_ns;
  const int64_t since_ns = g_rate_since_ns.load(std::memory_order_relaxed);
  return gained_ns + static_cast<int64_t>((rate - 1) * static_cast<double>(now_ns - since_ns));
}

uint64_t SaturatingAdd(uint64_t base, uint64_t distance) {
  return distance > UINT64_MAX - base ? UINT64_MAX : base + distance;
}

uint64_t SaturatingSubtract(uint64_t base, uint64_t distance) {
  return distance > base ? 0 : base - distance;
}

}  // namespace

uint64_t WorkerMonotonicNs() {
  const int64_t now_ns = ReadNs(CLOCK_MONOTONIC);
  return static_cast<uint64_t>(now_ns + GainedNs(now_ns) +
                               g_monotonic_shift_ns.load(std::memory_order_relaxed));
}

int64_t RealtimeNs() {
  return ReadNs(CLOCK_REALTIME) + g_realtime_shift_ns.load(std::memory_order_relaxed);
}

void ShiftRealtimeForTesting(int64_t shift_ns) {
  g_realtime_shift_ns.store(shift_ns, std::memory_order_relaxed);
}

void ShiftMonotonicForTesting(int64_t monotonic_ns, int64_t boottime_ns) {
  g_monotonic_shift_ns.store(monotonic_ns, std::memory_order_relaxed);
  g_boottime_shift_ns.store(boottime_ns, std::memory_order_relaxed);
}

void ShiftTicksForTesting(int64_t ticks) { g_ticks_shift.store(ticks, std::memory_order_relaxed); }

void SetMonotonicRateForTesting(double rate) {
  const int64_t now_ns = ReadNs(CLOCK_MONOTONIC);
  g_rate_gained_ns.store(GainedNs(now_ns), std::memory_order_relaxed);
  g_rate_since_ns.store(now_ns, std::memory_order_relaxed);
  g_rate.store(rate, std::memory_order_release);
}

ClockSample SampleClocks(bool uses_tsc, int tries) {
  ClockSample best;
  best.bracket_ticks = UINT64_MAX;
  for (int i = 0; i < tries || i == 0; ++i) {
    // The vDSO clock reads are ordered after earlier loads; a reordered tick read only widens the
    // bracket.
    const uint64_t before = detail::ReadTicks(uses_tsc);
    const uint64_t monotonic = WorkerMonotonicNs();
    const auto realtime = static_cast<uint64_t>(RealtimeNs());
    const uint64_t after = detail::ReadTicks(uses_tsc);
    if (after < before || after - before >= best.bracket_ticks) continue;
    // Without a TSC, ticks are MONOTONIC itself: any other value would give a rate that is not
    // exactly 1 ns.
    best.ticks = uses_tsc ? before + (after - before) / 2 : monotonic;
    best.monotonic_ns = monotonic;
    best.realtime_ns = realtime;
    best.bracket_ticks = after - before;
  }
  if (uses_tsc) {
    best.ticks += static_cast<uint64_t>(g_ticks_shift.load(std::memory_order_relaxed));
  }
  // A false rate is that of both clocks, so it cancels out.
  const int64_t boottime =
      ReadNs(CLOCK_BOOTTIME) + g_boottime_shift_ns.load(std::memory_order_relaxed);
  const int64_t monotonic =
      ReadNs(CLOCK_MONOTONIC) + g_monotonic_shift_ns.load(std::memory_order_relaxed);
  best.suspended_ns = boottime - monotonic;
  return best;
}

TickMap TickMap::FromSamples(const ClockSample& early, const ClockSample& late) {
  TickMap map;
  if (late.ticks > early.ticks && late.monotonic_ns > early.monotonic_ns) {
    const uint64_t ticks = late.ticks - early.ticks;
    const uint128 ps = static_cast<uint128>(late.monotonic_ns - early.monotonic_ns) * 1000;
    map.rate_whole_ = static_cast<uint64_t>(ps / ticks);
    map.rate_fraction_ = static_cast<uint64_t>(((ps % ticks) << 64) / ticks);
  }
  map.anchor_ticks_ = late.ticks;
  map.anchor_monotonic_ns_ = late.monotonic_ns;
  map.anchor_realtime_ns_ = late.realtime_ns;
  map.zero_ticks_ = late.ticks;
  return map;
}

TickMap TickMap::WithZero(uint64_t zero_ticks) const {
  TickMap map = *this;
  map.zero_ticks_ = zero_ticks;
  return map;
}

uint64_t TickMap::TicksOf(uint128 ps) const {
  // Rounds up. This undoes the floor taken by Scale, so that a round trip returns the starting
  // tick.
  const uint128 rate = (static_cast<uint128>(rate_whole_) << 64) | rate_fraction_;
  if (rate == 0 || ps >> 64 != 0) return UINT64_MAX;
  const uint128 scaled = ps << 64;
  const uint128 ticks = scaled / rate + (scaled % rate != 0 ? 1 : 0);
  return ticks > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(ticks);
}

uint64_t TickMap::FromPs(int64_t ps) const {
  if (ps >= 0) return SaturatingAdd(zero_ticks_, TicksOf(static_cast<uint64_t>(ps)));
  return SaturatingSubtract(zero_ticks_, TicksOf(~static_cast<uint64_t>(ps) + 1));
}

uint128 TickMap::NsFromAnchor(uint64_t ticks) const {
  // Computes in 128 bits throughout: an anchor may be more than 106 days away.
  const uint64_t distance = ticks >= anchor_ticks_ ? ticks - anchor_ticks_ : anchor_ticks_ - ticks;
  const uint128 ps = static_cast<uint128>(distance) * rate_whole_ +
                     ((static_cast<uint128>(distance) * rate_fraction_) >> 64);
  return (ps + 500) / 1000;
}

int64_t TickMap::ToUnixNs(uint64_t ticks) const {
  const auto anchor = static_cast<int64_t>(anchor_realtime_ns_);
  const bool later = ticks >= anchor_ticks_;
  const uint128 ns = NsFromAnchor(ticks);
  if (ns > static_cast<uint128>(INT64_MAX / 2)) return later ? INT64_MAX : INT64_MIN;
  return later ? anchor + static_cast<int64_t>(ns) : anchor - static_cast<int64_t>(ns);
}

uint64_t TickMap::ToMonotonicNs(uint64_t ticks) const {
  const bool later = ticks >= anchor_ticks_;
  const uint128 ns = NsFromAnchor(ticks);
  if (ns > UINT64_MAX) return later ? UINT64_MAX : 0;
  return later ? SaturatingAdd(anchor_monotonic_ns_, static_cast<uint64_t>(ns))
               : SaturatingSubtract(anchor_monotonic_ns_, static_cast<uint64_t>(ns));
}

uint64_t TickMap::FromAnchor(uint64_t now_ns, uint64_t anchor_ns) const {
  if (now_ns >= anchor_ns) {
    return SaturatingAdd(anchor_ticks_, TicksOf(static_cast<uint128>(now_ns - anchor_ns) * 1000));
  }
  return SaturatingSubtract(anchor_ticks_,
                            TicksOf(static_cast<uint128>(anchor_ns - now_ns) * 1000));
}

uint64_t TickMap::FromUnixNs(int64_t unix_ns) const {
  return unix_ns < 0 ? 0 : FromAnchor(static_cast<uint64_t>(unix_ns), anchor_realtime_ns_);
}

uint64_t TickMap::FromMonotonicNs(uint64_t monotonic_ns) const {
  return FromAnchor(monotonic_ns, anchor_monotonic_ns_);
}

double TickMap::ticks_per_second() const {
  const double ps_per_tick =
      static_cast<double>(rate_whole_) + std::ldexp(static_cast<double>(rate_fraction_), -64);
  return ps_per_tick > 0 ? 1e12 / ps_per_tick : 0;
}

}  // namespace jobscope
