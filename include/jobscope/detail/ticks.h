// SPDX-License-Identifier: Apache-2.0
//
// Reads the tick counter that timestamps records: TSC if it is suitable for timing, else
// CLOCK_MONOTONIC nanoseconds. Header-only and libc-only, so that the recorder and the server read
// the same counter.
#ifndef JOBSCOPE_DETAIL_TICKS_H_
#define JOBSCOPE_DETAIL_TICKS_H_

#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace jobscope::detail {

inline uint64_t MonotonicNs() {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1000000000u + static_cast<uint64_t>(ts.tv_nsec);
}

// Reads the counter. Unfenced on purpose: a fence doubles the cost of a scope and moves its ends by
// nanoseconds.
inline uint64_t ReadTicks(bool uses_tsc) {
#if defined(__x86_64__)
  if (__builtin_expect(uses_tsc, 1)) return __rdtsc();
#else
  (void)uses_tsc;
#endif
  return MonotonicNs();
}

}  // namespace jobscope::detail

#endif  // JOBSCOPE_DETAIL_TICKS_H_
