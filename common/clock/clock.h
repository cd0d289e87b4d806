// SPDX-License-Identifier: Apache-2.0
//
// Reads the clocks of a worker (ticks, which records hold; MONOTONIC; REALTIME) and defines the
// affine map from ticks to session time.
//
// Which clock is for what:
//
//   SteadyNow, MonotonicNow  MONOTONIC         deadlines and durations in one process (monotonic.h)
//   CondVar::Clock           MONOTONIC         deadlines of a CondVar (common/sync/mutex.h)
//   WorkerMonotonicNs        MONOTONIC         a worker's instants: in commands, answers and traces
//   RealtimeNs               REALTIME          a worker's dates: in answers and traces
//   absl::Now                REALTIME          dates for people: logs, manifest, names of runs
//   TickClock                TSC or MONOTONIC  records; TickMap converts it to the others
//   detail::MonotonicNs      MONOTONIC         code that may use libc only: recorder, fork handlers
#ifndef COMMON_CLOCK_CLOCK_H_
#define COMMON_CLOCK_CLOCK_H_

#include <cstdint>

namespace jobscope {

// Reads CLOCK_MONOTONIC of this machine. Start instants are commanded on this clock. Not for
// deadlines and durations: tests shift it against MonotonicNow.
uint64_t WorkerMonotonicNs();

// Reads CLOCK_REALTIME, in ns since the epoch. Every date in a trace or an answer of a worker comes
// from this function.
int64_t RealtimeNs();

// Holds clocks that were read together: the narrowest of several bracketed readings.
struct ClockSample {
  // Middle of the bracket; if ticks are MONOTONIC nanoseconds: monotonic_ns itself.
  uint64_t ticks = 0;
  uint64_t monotonic_ns = 0;
  uint64_t realtime_ns = 0;    // epoch
  uint64_t bracket_ticks = 0;  // width of the bracket: the sample's uncertainty
  // BOOTTIME minus MONOTONIC: how long the machine has been suspended since boot. Accurate to the
  // time that a thread may lose between the two reads.
  int64_t suspended_ns = 0;
};

// Reads the clocks `tries` times (about 0.1 us each) and keeps the narrowest bracket; reads
// BOOTTIME once. `uses_tsc` is the recorder's choice.
ClockSample SampleClocks(bool uses_tsc, int tries = 100);

// Converts ticks to nanoseconds of REALTIME and to ps since a zero, and back. The map is affine and
// never revised, so that parents and children stay nested.
//
// The rate is a fixed-point number of ps per tick with 64 fractional bits: products are exact to
// 2^-64 of their ticks (10 h at 5 GHz: 10^-5 ps), a < b gives ToPs(a) <= ToPs(b), and
// FromPs(ToPs(t)) == t where a tick is 1 ps or more. Distances beyond the range of int64 ps (106
// days) saturate.
class TickMap {
 public:
  TickMap() = default;
  // Makes a map from two samples. The caller waits until they are at least 100 ms apart: closer
  // ones give too rough a rate. The rate is that of MONOTONIC; the offset to REALTIME comes from
  // `late`. Equal samples give 1 ns per tick.
  static TickMap FromSamples(const ClockSample& early, const ClockSample& late);

  // Returns this map with its zero at `zero_ticks`.
  TickMap WithZero(uint64_t zero_ticks) const;

  // Returns ps since the zero, negative before it. Costs two multiplications: the drain converts
  // both ends of every event.
  int64_t ToPs(uint64_t ticks) const {
    return ticks >= zero_ticks_ ? Scale(ticks - zero_ticks_) : -Scale(zero_ticks_ - ticks);
  }
  // Returns the tick whose ToPs is `ps`; between two ticks, the one farther from the zero.
  uint64_t FromPs(int64_t ps) const;
  int64_t ToUnixNs(uint64_t ticks) const;
  uint64_t FromUnixNs(int64_t unix_ns) const;
  uint64_t FromMonotonicNs(uint64_t monotonic_ns) const;
  uint64_t ToMonotonicNs(uint64_t ticks) const;
  uint64_t zero_ticks() const { return zero_ticks_; }
  double ticks_per_second() const;

 private:
  // Returns ticks * rate in ps, rounded down.
  int64_t Scale(uint64_t ticks) const {
    const unsigned __int128 whole = static_cast<unsigned __int128>(ticks) * rate_whole_;
    const unsigned __int128 part = (static_cast<unsigned __int128>(ticks) * rate_fraction_) >> 64;
    const unsigned __int128 sum = whole + part;
    return sum > static_cast<unsigned __int128>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(sum);
  }
  uint64_t TicksOf(unsigned __int128 ps) const;
  uint64_t FromAnchor(uint64_t now_ns, uint64_t anchor_ns) const;
  // Returns the rounded number of nanoseconds between the anchor and `ticks`, in either direction.
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
