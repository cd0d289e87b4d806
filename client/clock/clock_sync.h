// SPDX-License-Identifier: Apache-2.0
//
// Estimates a worker's clock against ours from a burst of pings.
#ifndef CLIENT_CLOCK_CLOCK_SYNC_H_
#define CLIENT_CLOCK_CLOCK_SYNC_H_

#include <cstdint>
#include <optional>

namespace jobscope {

// One ping and its answer. `sent` and `received` are read on this machine's MONOTONIC clock, the
// other two on the worker's.
struct ClockExchange {
  uint64_t sent_ns = 0;
  uint64_t worker_received_ns = 0;
  uint64_t worker_sent_ns = 0;
  uint64_t received_ns = 0;
  int64_t worker_realtime_ns = 0;  // at worker_sent_ns
  int64_t realtime_ns = 0;         // of this machine, at received_ns
};

struct ClockEstimate {
  int64_t offset_ns = 0;           // MONOTONIC of the worker minus ours
  uint64_t uncertainty_ns = 0;     // the true offset lies within offset_ns +- this, at measured_ns
  uint64_t measured_ns = 0;        // on our MONOTONIC
  uint64_t round_trip_ns = 0;      // the smallest, without the worker's own time
  int64_t realtime_offset_ns = 0;  // REALTIME of the worker minus ours, with the same uncertainty
};

// Intersects the exchanges' intervals. Each exchange bounds the true offset, whatever the asymmetry
// of the path: [worker_sent - received, worker_received - sent], as wide as the round trip. The
// intervals are widened by the drift between them. Not thread-safe.
class ClockSync {
 public:
  // Adds an exchange. Ignores impossible times (the worker took longer than the whole). If an
  // exchange contradicts those before it, they are discarded.
  void Add(const ClockExchange& exchange);
  // Returns whether more pings would hardly narrow the estimate: the round trip is small (3 pings
  // on one machine or in one rack), or the last ones did not narrow it. At most kMaxExchanges are
  // worth sending.
  bool Enough() const;
  std::optional<ClockEstimate> estimate() const;

  static constexpr int kMaxExchanges = 16;

 private:
  int exchanges_ = 0;
  int idle_exchanges_ = 0;  // the last ones, which narrowed nothing
  // The offset lies in [low, high] at `measured`.
  int64_t low_ns_ = 0;
  int64_t high_ns_ = 0;
  uint64_t measured_ns_ = 0;
  uint64_t round_trip_ns_ = UINT64_MAX;      // the smallest
  int64_t realtime_minus_monotonic_ns_ = 0;  // of that exchange: REALTIME's offset less MONOTONIC's
};

// Returns the estimate's uncertainty at a later time: crystals of two machines drift apart by at
// most 100 ppm (the kernel's NTP slews by up to 500 ppm, but only to repair such drift).
uint64_t UncertaintyAt(const ClockEstimate& estimate, uint64_t monotonic_ns);

}  // namespace jobscope

#endif  // CLIENT_CLOCK_CLOCK_SYNC_H_
