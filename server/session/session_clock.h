// SPDX-License-Identifier: Apache-2.0
//
// The time of one session: the map from ticks to it, and whether that still holds.
#ifndef SERVER_SESSION_SESSION_CLOCK_H_
#define SERVER_SESSION_SESSION_CLOCK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/clock/clock.h"
#include "common/clock/clock_baseline.h"

namespace jobscope {

// Belongs to the session thread.
class SessionClock {
 public:
  // Waits on the session thread, which processes the request queue meanwhile.
  using Pause = std::function<void(std::chrono::nanoseconds)>;

  SessionClock(std::shared_ptr<ClockBaseline> baseline, bool uses_tsc)
      : baseline_(std::move(baseline)), uses_tsc_(uses_tsc) {}

  // The session begins. Warns of a machine whose ticks are none to rely on.
  void Begin(std::vector<std::string>* warnings);
  // Waits until the server is old enough for a map of ticks to time: only a session in its first
  // 100 ms waits.
  void AwaitBaseline(const Pause& pause);
  // Makes the one affine map of the session (docs/trace_format.md, "Time"). Of a baseline that does
  // not hold any more, another is taken, as in a young worker, and `warnings` says so.
  void Fix(const Pause& pause, std::vector<std::string>* warnings);
  // Whether ticks run as the map says.
  bool Holds() const;

  const TickMap& map() const { return map_; }
  // No tick before it is on the map.
  uint64_t past_from_ticks() const { return past_from_ticks_; }
  uint64_t NowTicks() const;
  uint64_t Nanoseconds(uint64_t ticks) const;  // in so many of them
  // Now, if `ticks` have passed already.
  std::chrono::steady_clock::time_point TimeOf(uint64_t ticks) const;

 private:
  const std::shared_ptr<ClockBaseline> baseline_;
  const bool uses_tsc_;
  ClockSample recent_;  // the last one
  TickMap map_;
  uint64_t past_from_ticks_ = 0;
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_CLOCK_H_
