// SPDX-License-Identifier: Apache-2.0
//
// Timed waits of the Abseil inside libjobscope.so and `capture` that a stepped clock does not
// lengthen. Abseil 20220623 waits until an instant of CLOCK_REALTIME, and gRPC's timer thread waits
// so: where the clock of a host is set back by an hour, no timer of gRPC's would expire for an
// hour, and a capture that runs would never be delivered. Later releases of Abseil wait by
// CLOCK_MONOTONIC.
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstdarg>
#include <cstdint>

namespace {

constexpr int64_t kSecondNs = 1'000'000'000;

int64_t NowNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return now.tv_sec * kSecondNs + now.tv_nsec;
}

// Returns the instant of MONOTONIC that is as far ahead as `deadline` of REALTIME is now.
timespec OnMonotonic(const timespec& deadline) {
  const int64_t left_ns = deadline.tv_sec * kSecondNs + deadline.tv_nsec - NowNs(CLOCK_REALTIME);
  const int64_t at_ns = NowNs(CLOCK_MONOTONIC) + (left_ns > 0 ? left_ns : 0);
  return {static_cast<time_t>(at_ns / kSecondNs), static_cast<long>(at_ns % kSecondNs)};
}

}  // namespace

extern "C" {
// The linker redirects the calls here (--wrap=syscall); the first is the original.
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  long a[6];  // the kernel's maximum; it does not read arguments that were not passed
  va_list arguments;
  va_start(arguments, number);
  for (long& argument : a) argument = va_arg(arguments, long);
  va_end(arguments);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): system calls take all arguments as numbers
  const auto* const deadline = reinterpret_cast<const timespec*>(a[3]);
  // Later deadlines count as "never"; the sum must not overflow.
  constexpr time_t kMaxSeconds = INT64_MAX / kSecondNs / 2;
  if (number != SYS_futex || (a[1] & FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET ||
      (a[1] & FUTEX_CLOCK_REALTIME) == 0 || deadline == nullptr || deadline->tv_sec > kMaxSeconds) {
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  const timespec steady = OnMonotonic(*deadline);
  return __real_syscall(number, a[0], a[1] & ~static_cast<long>(FUTEX_CLOCK_REALTIME), a[2],
                        &steady, a[4], a[5]);
}
}
