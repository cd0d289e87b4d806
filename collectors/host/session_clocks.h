// SPDX-License-Identifier: Apache-2.0
//
// Checks during a session that its map from ticks to time is still valid, and writes clock samples
// into the trace.
#ifndef COLLECTORS_HOST_SESSION_CLOCKS_H_
#define COLLECTORS_HOST_SESSION_CLOCKS_H_

#include <cstdint>

#include "collectors/collector.h"
#include "common/clock/clock.h"
#include "common/clock/clock_watch.h"
#include "common/xspace/segment/item_sink.h"

namespace jobscope::host {

// Not thread-safe. Owns neither `events` nor `sink`.
class SessionClocks {
 public:
  // `uses_tsc`: ticks are those of the CPU's counter; otherwise they are MONOTONIC itself, and need
  // no check.
  SessionClocks(bool uses_tsc, SessionEvents* events, xspace::ItemSink* sink)
      : uses_tsc_(uses_tsc), events_(events), sink_(sink) {}

  // `clocks`: a sample of the session's start, for which `map` is valid. Writes it into the trace.
  void Begin(const TickMap& map, const ClockSample& clocks);
  // Returns whether the map is still valid. The first time that it is not, calls OnClockJumped of
  // the session.
  bool IsMapValid(const ClockSample& now);
  // Returns whether IsMapValid has returned false.
  bool jumped() const { return jumped_; }
  // Returns the ticks of the last sample for which the map was valid.
  uint64_t last_good_ticks() const { return watch_.last_good_ticks(); }

  // Writes a sample into the trace.
  void Append(const ClockSample& sample);
  // Returns the ticks of the newest sample in the trace.
  uint64_t appended_ticks() const { return appended_ticks_; }

 private:
  const bool uses_tsc_;
  SessionEvents* const events_;
  xspace::ItemSink* const sink_;
  ClockWatch watch_;
  bool jumped_ = false;
  uint64_t appended_ticks_ = 0;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_SESSION_CLOCKS_H_
