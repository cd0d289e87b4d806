// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/drain_pace.h"

#include <algorithm>

namespace jobscope::host {
namespace {

// Bounds the interval between two drains. The shortest costs 0.2 % of a core in wake-ups. The
// longest is how late the drain may notice a thread that suddenly records at full speed; it
// suffices for 1 M/s into a ring of the default size, which holds 33 ms of that.
constexpr absl::Duration kShortestPause = absl::Milliseconds(1);
constexpr absl::Duration kLongestPause = absl::Milliseconds(20);
constexpr absl::Duration kQuietPause = absl::Milliseconds(100);
// How long a thread is expected to record as fast as before: training steps alternate between
// bursts of scopes and waiting for a device.
constexpr absl::Duration kRateMemory = absl::Seconds(2);
// The same for a rate that fills a ring within the quiet pause: forgetting it would lose the start
// of every burst of a program whose steps wait longer than kRateMemory for the device.
constexpr absl::Duration kFastRateMemory = absl::Seconds(30);
// Rings, of the 64 of the default cap, that may belong to threads that ended since the last drain.
constexpr double kHeldRings = 16;

}  // namespace

void DrainPace::Begin(uint64_t now_ticks, double ticks_per_second, uint64_t ring_records) {
  ticks_per_second_ = ticks_per_second;
  ring_records_ = ring_records;
  last_drain_ticks_ = last_record_ticks_ = now_ticks;
}

absl::Duration DrainPace::Next(uint64_t entry_ticks, const DrainFindings& found) {
  const uint64_t elapsed = std::max<uint64_t>(1, entry_ticks - last_drain_ticks_);
  last_drain_ticks_ = entry_ticks;
  pause_ = found.out_of_time ? absl::ZeroDuration() : std::max(pause_, kShortestPause);
  if (found.store_full) {
    // Space may become free at once, if a peer reads fast, or never.
    pause_ = std::clamp(2 * pause_, kShortestPause, kQuietPause);
    return pause_;
  }
  if (found.out_of_time) return pause_;  // continue at once
  const auto ticks = [this](absl::Duration duration) {
    return static_cast<uint64_t>(absl::ToDoubleSeconds(duration) * ticks_per_second_);
  };
  const double fast_rate =
      static_cast<double>(ring_records_) / static_cast<double>(ticks(kQuietPause));
  const uint64_t memory_ticks = ticks(peak_rate_ > fast_rate ? kFastRateMemory : kRateMemory);
  const double rate = static_cast<double>(found.busiest_records) / static_cast<double>(elapsed);
  if (found.busiest_records > 0) last_record_ticks_ = entry_ticks;
  if (rate >= peak_rate_ || entry_ticks - peak_ticks_ > memory_ticks) {
    peak_rate_ = rate;
    peak_ticks_ = entry_ticks;
  } else if (rate > fast_rate) {
    peak_ticks_ = entry_ticks;  // slower bursts also prolong the memory of the fastest one
  }
  // Grows slowly, so that one quiet interval does not delay a burst; shrinks at once.
  const bool quiet = entry_ticks - last_record_ticks_ > ticks(kRateMemory);
  absl::Duration next = std::min(2 * pause_, quiet ? kQuietPause : kLongestPause);
  if (peak_rate_ > 0) {
    const double share = static_cast<double>(ring_records_) / static_cast<double>(kRingShare);
    next = std::min(next, absl::Seconds(share / peak_rate_ / ticks_per_second_));
  }
  if (found.ended_threads > 0) {
    // Rings of ended threads are held for this drain: at the current rate, that many are denied to
    // new threads.
    const double ticks_per_ring =
        static_cast<double>(elapsed) / static_cast<double>(found.ended_threads);
    next = std::min(next, absl::Seconds(ticks_per_ring * kHeldRings / ticks_per_second_));
  }
  pause_ = std::max(next, kShortestPause);
  return pause_;
}

}  // namespace jobscope::host
