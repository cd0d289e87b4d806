// SPDX-License-Identifier: Apache-2.0
//
// Checks that ticks still match a session's map, and writes clock samples into the trace.
#ifndef COLLECTORS_HOST_SESSION_CLOCKS_H_
#define COLLECTORS_HOST_SESSION_CLOCKS_H_

#include <cstdint>

#include "collectors/collector.h"
#include "common/clock/clock.h"
#include "common/clock/clock_watch.h"
#include "common/xspace/segment/item_sink.h"

namespace jobscope::host {

// Checks and records the clocks of a session. Not thread-safe.
class SessionClocks {
 public:
  SessionClocks(bool uses_tsc, SessionEvents* events, xspace::ItemSink* sink)
      : uses_tsc_(uses_tsc), events_(events), sink_(sink) {}

  // `clocks` were sampled when the session started.
  void Begin(const TickMap& map, const ClockSample& clocks);
  // Checks that ticks still match the map. False: they do not; the session is notified once.
  bool Hold(const ClockSample& now);
  bool jumped() const { return jumped_; }
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
