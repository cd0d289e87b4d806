// SPDX-License-Identifier: Apache-2.0
#include "client/clock/clock_sync.h"

#include <algorithm>

namespace jobscope {
namespace {

// Below this round trip, the possible gain is less than the time a thread needs to wake up.
constexpr uint64_t kSmallRoundTripNs = 500'000;
constexpr int kFewExchanges = 3;

// Larger times are no clock's reading; keeps sums of two in range. 2^61 ns are 73 years.
constexpr uint64_t kMaxClockNs = uint64_t{1} << 61;

// 100 ppm, rounded up.
uint64_t Drift(uint64_t elapsed_ns) { return elapsed_ns / 10'000 + 1; }

uint64_t Distance(uint64_t a, uint64_t b) { return a > b ? a - b : b - a; }

bool CanBe(const ClockExchange& exchange) {
  return exchange.sent_ns <= exchange.received_ns &&
         exchange.worker_received_ns <= exchange.worker_sent_ns &&
         exchange.received_ns < kMaxClockNs && exchange.worker_sent_ns < kMaxClockNs &&
         exchange.worker_sent_ns - exchange.worker_received_ns <=
             exchange.received_ns - exchange.sent_ns;
}

// Returns the worker's REALTIME minus ours, less the same of MONOTONIC. Unsigned, because foreign
// numbers may wrap.
int64_t RealtimeMinusMonotonic(const ClockExchange& exchange) {
  const uint64_t worker =
      static_cast<uint64_t>(exchange.worker_realtime_ns) - exchange.worker_sent_ns;
  const uint64_t ours = static_cast<uint64_t>(exchange.realtime_ns) - exchange.received_ns;
  return static_cast<int64_t>(worker - ours);
}

}  // namespace

void ClockSync::Add(const ClockExchange& exchange) {
  if (!CanBe(exchange)) return;
  ++exchanges_;
  // The ping was sent before the worker read its clock, and the pong received after: the offset
  // lies between these two, however the round trip is split between the two directions.
  const int64_t low =
      static_cast<int64_t>(exchange.worker_sent_ns) - static_cast<int64_t>(exchange.received_ns);
  const int64_t high =
      static_cast<int64_t>(exchange.worker_received_ns) - static_cast<int64_t>(exchange.sent_ns);
  const auto width = static_cast<uint64_t>(high - low);
  if (width <= round_trip_ns_) {
    round_trip_ns_ = width;
    realtime_minus_monotonic_ns_ = RealtimeMinusMonotonic(exchange);
  }

  int64_t kept_low = low;
  int64_t kept_high = high;
  if (exchanges_ > 1) {
    // Earlier bounds still hold, except for the drift since.
    const auto drift = static_cast<int64_t>(Drift(Distance(exchange.received_ns, measured_ns_)));
    kept_low = std::max(low, low_ns_ - drift);
    kept_high = std::min(high, high_ns_ + drift);
    if (kept_low > kept_high) {
      // A clock was set or a machine slept in between: earlier bounds are void.
      kept_low = low;
      kept_high = high;
      round_trip_ns_ = width;
      realtime_minus_monotonic_ns_ = RealtimeMinusMonotonic(exchange);
    }
  }
  const uint64_t before = exchanges_ > 1 ? static_cast<uint64_t>(high_ns_ - low_ns_) : UINT64_MAX;
  low_ns_ = kept_low;
  high_ns_ = kept_high;
  measured_ns_ = exchange.received_ns;
  // A tenth less is worth another ping.
  const auto after = static_cast<uint64_t>(high_ns_ - low_ns_);
  idle_exchanges_ = after < before - before / 10 ? 0 : idle_exchanges_ + 1;
}

bool ClockSync::Enough() const {
  if (exchanges_ >= kMaxExchanges) return true;
  if (exchanges_ < kFewExchanges) return false;
  return round_trip_ns_ <= kSmallRoundTripNs || idle_exchanges_ >= kFewExchanges;
}

std::optional<ClockEstimate> ClockSync::estimate() const {
  if (exchanges_ == 0) return std::nullopt;
  const auto width = static_cast<uint64_t>(high_ns_ - low_ns_);
  ClockEstimate estimate;
  estimate.offset_ns = low_ns_ + static_cast<int64_t>(width / 2);
  estimate.uncertainty_ns = (width + 1) / 2;
  estimate.measured_ns = measured_ns_;
  estimate.round_trip_ns = round_trip_ns_;
  estimate.realtime_offset_ns =
      static_cast<int64_t>(static_cast<uint64_t>(estimate.offset_ns) +
                           static_cast<uint64_t>(realtime_minus_monotonic_ns_));
  return estimate;
}

uint64_t UncertaintyAt(const ClockEstimate& estimate, uint64_t monotonic_ns) {
  return estimate.uncertainty_ns + Drift(Distance(monotonic_ns, estimate.measured_ns));
}

}  // namespace jobscope
