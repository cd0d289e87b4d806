// SPDX-License-Identifier: Apache-2.0
//
// Defines the window of a session, in ticks and in session time.
#ifndef COLLECTORS_HOST_ENCODING_WINDOW_H_
#define COLLECTORS_HOST_ENCODING_WINDOW_H_

#include <algorithm>
#include <cstdint>

#include "common/clock/clock.h"

namespace jobscope::host {

// The part of a span within the window.
struct Clipped {
  int64_t start_ps = 0;
  int64_t duration_ps = 0;
  bool at_start = false;  // it began before the window
  bool at_end = false;    // it ended after the window
};

struct Window {
  uint64_t start_ticks = 0;
  // The planned end, until Stop or the last step sets the actual one.
  uint64_t end_ticks = UINT64_MAX;
  bool over = false;  // the actual end is set
  // Where the first step of a window of steps was marked to begin. It counts as whole even if the
  // wait before it is cut off.
  uint64_t first_step_ticks = UINT64_MAX;
  TickMap map;  // zero set

  bool Intersects(uint64_t begin, uint64_t end) const {
    return end >= start_ticks && begin <= end_ticks;
  }
  // Clips a span that intersects the window.
  Clipped Clip(uint64_t begin, uint64_t end) const {
    const uint64_t from = std::max(begin, start_ticks);
    const uint64_t to = std::min(end, end_ticks);
    const int64_t start_ps = map.ToPs(from);
    return {start_ps, map.ToPs(to) - start_ps, from != begin, to != end};
  }
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_ENCODING_WINDOW_H_
