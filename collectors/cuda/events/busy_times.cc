// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/busy_times.h"

#include <algorithm>
#include <iterator>

namespace jobscope::cuda {

bool BusyTimes::Add(uint64_t begin, uint64_t end) {
  if (begin < known_from_) return false;
  // Most events follow the last one.
  auto next = intervals_.end();
  if (!intervals_.empty() && intervals_.back().begin >= begin) {
    next = std::lower_bound(
        intervals_.begin(), intervals_.end(), begin,
        [](const Interval& interval, uint64_t ticks) { return interval.begin < ticks; });
  }
  const bool has_next = next != intervals_.end();
  if (has_next && next->begin < end) return false;
  const bool has_previous = next != intervals_.begin();
  if (has_previous && std::prev(next)->end > begin) return false;
  if (begin >= end) return true;
  const bool touches_next = has_next && next->begin == end;
  if (has_previous && std::prev(next)->end == begin) {
    const auto previous = std::prev(next);
    previous->end = touches_next ? next->end : end;
    if (touches_next) intervals_.erase(next);
  } else if (touches_next) {
    next->begin = begin;
  } else {
    intervals_.insert(next, {begin, end});
    if (intervals_.size() > kMaxIntervals) {
      known_from_ = intervals_.front().end;
      intervals_.pop_front();
    }
  }
  return true;
}

}  // namespace jobscope::cuda
