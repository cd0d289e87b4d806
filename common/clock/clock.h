// SPDX-License-Identifier: Apache-2.0
//
// Clocks of a worker: ticks (what records hold), MONOTONIC and REALTIME, and the one affine map
// from ticks to session time.
#ifndef COMMON_CLOCK_CLOCK_H_
#define COMMON_CLOCK_CLOCK_H_

#include <cstdint>

namespace jobscope {

// CLOCK_MONOTONIC of this machine: what start instants are commanded on.
uint64_t MonotonicNs();

// CLOCK_REALTIME: ns since the epoch. Whatever becomes a time in a trace or in an answer is read
// here; deadlines and lengths of time are not, they stay on the clocks of their libraries.
int64_t RealtimeNs();

// For tests of workers whose clocks differ: from now on RealtimeNs and SampleClocks read REALTIME
// this much later (or earlier) than it is, in the whole process. Thread-safe.
void ShiftRealtimeForTesting(int64_t shift_ns);

// For tests of ticks that do not run as the clocks do, which is the same as clocks that do not run
// as the ticks: MonotonicNs and SampleClocks read MONOTONIC, and SampleClocks BOOTTIME, this much
// later (or earlier). Only where ticks are TSC. Thread-safe.
void ShiftMonotonicForTesting(int64_t monotonic_ns, int64_t boottime_ns);

// The clocks, read together: the narrowest of a burst of bracketed readings.
struct ClockSample {
  uint64_t ticks =
      0;  // middle of the bracket; if ticks are MONOTONIC nanoseconds: monotonic_ns itself
  uint64_t monotonic_ns = 0;
  uint64_t realtime_ns = 0;    // epoch
  uint64_t bracket_ticks = 0;  // width of the bracket: the uncertainty of the sample
  // BOOTTIME minus MONOTONIC: for how long the machine has been suspended since it was started.
  // Exact to the time that a thread may lose between two readings.
  int64_t suspended_ns = 0;
};

// Reads the clocks, `tries` times (about 0.1 us each), and keeps the narrowest bracket; BOOTTIME
// once. `uses_tsc` is the recorder's choice.
ClockSample SampleClocks(bool uses_tsc, int tries = 100);

// Ticks <-> nanoseconds of REALTIME and ps since a zero. Affine, fixed when made, never revised:
// parents and children stay nested.
//
// The rate is a fixed-point number of ps per tick with 64 fractional bits: products are exact to
// 2^-64 of their ticks (10 h at 5 GHz: 10^-5 ps), a < b gives ToPs(a) <= ToPs(b), and
// FromPs(ToPs(t)) == t where a tick is 1 ps or more. Distances beyond the range of int64 ps (106
// days) saturate.
class TickMap {
 public:
  TickMap() = default;
  // From two samples at least 100 ms apart (nearer ones give a rate too rough to use: the caller
  // waits). The rate is taken from MONOTONIC, the offset to REALTIME from `late`. Samples that do
  // not differ give 1 ns per tick.
  static TickMap FromSamples(const ClockSample& early, const ClockSample& late);

  // A map whose zero lies at `zero_ticks`.
  TickMap WithZero(uint64_t zero_ticks) const;

  // ps since the zero; negative before it. Two multiplications: the drain calls it for both ends of
  // every event.
  int64_t ToPs(uint64_t ticks) const {
    return ticks >= zero_ticks_ ? Scale(ticks - zero_ticks_) : -Scale(zero_ticks_ - ticks);
  }
  // The tick whose ToPs is `ps`; between two ticks, the one farther from the zero.
  uint64_t FromPs(int64_t ps) const;
  int64_t ToUnixNs(uint64_t ticks) const;
  uint64_t FromUnixNs(int64_t unix_ns) const;
  uint64_t FromMonotonicNs(uint64_t monotonic_ns) const;
  uint64_t ToMonotonicNs(uint64_t ticks) const;
  uint64_t zero_ticks() const { return zero_ticks_; }
  double ticks_per_second() const;

 private:
  // Floor of ticks * rate, in ps.
  int64_t Scale(uint64_t ticks) const {
    const unsigned __int128 whole = static_cast<unsigned __int128>(ticks) * rate_whole_;
    const unsigned __int128 part = (static_cast<unsigned __int128>(ticks) * rate_fraction_) >> 64;
    const unsigned __int128 sum = whole + part;
    return sum > static_cast<unsigned __int128>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(sum);
  }
  uint64_t TicksOf(unsigned __int128 ps) const;
  uint64_t FromAnchor(uint64_t now_ns, uint64_t anchor_ns) const;
  // Nanoseconds between the anchor and `ticks`, rounded, whichever is later.
  unsigned __int128 NsFromAnchor(uint64_t ticks) const;

  uint64_t rate_whole_ = 1000;  // ps per tick
  uint64_t rate_fraction_ = 0;  // in 2^-64 ps
  uint64_t anchor_ticks_ = 0;
  uint64_t anchor_monotonic_ns_ = 0;
  uint64_t anchor_realtime_ns_ = 0;
  uint64_t zero_ticks_ = 0;
};

}  // namespace jobscope

#endif  // COMMON_CLOCK_CLOCK_H_
