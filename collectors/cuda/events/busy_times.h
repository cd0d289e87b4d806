// SPDX-License-Identifier: Apache-2.0
//
// Records at which times a timeline of a GPU has events.
#ifndef COLLECTORS_CUDA_EVENTS_BUSY_TIMES_H_
#define COLLECTORS_CUDA_EVENTS_BUSY_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>

namespace jobscope::cuda {

// Tells overlapping events from late ones: buffers arrive per thread, so that the kernels of two
// threads on one stream arrive one thread after the other.
class BusyTimes {
 public:
  // Bounds the known intervals, to 256 KiB. A buffer of 1 MiB holds some 4,000 launches of one
  // thread; while it waits, other threads may launch four times as many on the stream.
  static constexpr size_t kMaxIntervals = 16'384;

  // Adds [begin, end) if nothing known overlaps it. False: something does, or it lies before the
  // known times.
  bool Add(uint64_t begin, uint64_t end);

 private:
  struct Interval {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  std::deque<Interval> intervals_;  // disjoint, sorted
  uint64_t known_from_ = 0;         // earlier times are forgotten
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_EVENTS_BUSY_TIMES_H_
