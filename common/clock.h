// SPDX-License-Identifier: Apache-2.0
//
// Clocks of a worker: ticks (what records hold), MONOTONIC and REALTIME, and the one affine map
// from ticks to session time.
#ifndef COMMON_CLOCK_H_
#define COMMON_CLOCK_H_

#include <cstdint>

namespace jobscope {

// The three clocks, read together: the narrowest of a burst of bracketed readings.
struct ClockSample {
  uint64_t ticks = 0;  // middle of the bracket
  uint64_t monotonic_ns = 0;
  uint64_t realtime_ns = 0;    // epoch
  uint64_t bracket_ticks = 0;  // width of the bracket: the uncertainty of the sample
};

// Reads the clocks, `tries` times (about 0.1 us each), and keeps the narrowest bracket. `uses_tsc`
// is the recorder's choice.
ClockSample SampleClocks(bool uses_tsc, int tries = 100);

// Ticks <-> nanoseconds of REALTIME and ps since a zero. Affine, fixed when made, never revised:
// parents and children stay nested.
class TickMap {
 public:
  TickMap() = default;
  // From two samples at least 100 ms apart (nearer ones give a rate too rough to use: the caller
  // waits or falls back to Nominal). The rate is taken from MONOTONIC, the offset to REALTIME from
  // `late`.
  static TickMap FromSamples(const ClockSample& early, const ClockSample& late);

  // A map whose zero lies at `zero_ticks`.
  TickMap WithZero(uint64_t zero_ticks) const;

  int64_t ToPs(uint64_t ticks) const;  // since the zero; negative before it
  uint64_t FromPs(int64_t ps) const;
  int64_t ToUnixNs(uint64_t ticks) const;
  uint64_t FromUnixNs(int64_t unix_ns) const;
  uint64_t FromMonotonicNs(uint64_t monotonic_ns) const;
  double ticks_per_second() const { return 1e12 / ps_per_tick_; }

 private:
  double ps_per_tick_ = 1000.0;
  uint64_t anchor_ticks_ = 0;
  uint64_t anchor_monotonic_ns_ = 0;
  uint64_t anchor_realtime_ns_ = 0;
  uint64_t zero_ticks_ = 0;
};

}  // namespace jobscope

#endif  // COMMON_CLOCK_H_
