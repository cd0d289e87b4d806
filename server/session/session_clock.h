// SPDX-License-Identifier: Apache-2.0
//
// Keeps the time of one session: maps ticks to nanoseconds and checks that the map still holds.
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
#include "common/sync/mutex.h"

namespace jobscope {

// Belongs to the session thread.
class SessionClock {
 public:
  // Blocks the session thread, which processes the request queue meanwhile.
  using Pause = std::function<void(std::chrono::nanoseconds)>;

  SessionClock(std::shared_ptr<ClockBaseline> baseline, bool uses_tsc)
      : baseline_(std::move(baseline)), uses_tsc_(uses_tsc) {}

  // Begins the session. Warns of a machine whose ticks are unreliable.
  void Begin(std::vector<std::string>* warnings);
  // Blocks until the server is old enough for a map from ticks to time: only a session in the
  // server's first 100 ms waits.
  void AwaitBaseline(const Pause& pause);
  // Computes the session's one affine map (docs/trace_format.md, "Time"). Replaces a baseline that
  // no longer holds, as in a young worker, and says so in `warnings`.
  void Fix(const Pause& pause, std::vector<std::string>* warnings);
  // Returns whether ticks still advance as the map says.
  bool Holds() const;

  const TickMap& map() const { return map_; }
  // The map is not valid for earlier ticks.
  uint64_t past_from_ticks() const { return past_from_ticks_; }
  uint64_t NowTicks() const;
  uint64_t Nanoseconds(uint64_t ticks) const;  // converts a number of ticks to nanoseconds
  // Converts ticks to a time; returns the current time if `ticks` have passed already.
  CondVar::Clock::time_point TimeOf(uint64_t ticks) const;

 private:
  const std::shared_ptr<ClockBaseline> baseline_;
  const bool uses_tsc_;
  ClockSample recent_;  // the last one
  TickMap map_;
  uint64_t past_from_ticks_ = 0;
};

}  // namespace jobscope

#endif  // SERVER_SESSION_SESSION_CLOCK_H_
