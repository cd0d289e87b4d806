// SPDX-License-Identifier: Apache-2.0
//
// The clocks of a session: whether ticks still run as its map says, and the samples in the trace.
#ifndef COLLECTORS_HOST_SESSION_CLOCKS_H_
#define COLLECTORS_HOST_SESSION_CLOCKS_H_

#include <cstdint>

#include "collectors/collector.h"
#include "common/clock/clock.h"
#include "common/clock/clock_watch.h"
#include "common/xspace/segment/item_sink.h"

namespace jobscope::host {

// One thread's.
class SessionClocks {
 public:
  SessionClocks(bool uses_tsc, SessionEvents* events, xspace::ItemSink* sink)
      : uses_tsc_(uses_tsc), events_(events), sink_(sink) {}

  // `clocks` were sampled when the session started.
  void Begin(const TickMap& map, const ClockSample& clocks);
  // False: ticks do not run as the map says any more; the session is told, once.
  bool Hold(const ClockSample& now);
  bool jumped() const { return jumped_; }
  uint64_t last_good_ticks() const { return watch_.last_good_ticks(); }

  // Into the trace.
  void Append(const ClockSample& sample);
  // The newest that is there.
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
