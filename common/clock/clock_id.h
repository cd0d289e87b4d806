// SPDX-License-Identifier: Apache-2.0
//
// Which MONOTONIC clock a process reads.
#ifndef COMMON_CLOCK_CLOCK_ID_H_
#define COMMON_CLOCK_CLOCK_ID_H_

#include <string>

namespace jobscope {

// Two processes with the same id read the same CLOCK_MONOTONIC: the same boot of the same kernel
// (/proc/sys/kernel/random/boot_id), and the same time namespace. 32 hexadecimal digits; empty
// where /proc does not tell. A hint, not a proof: a process may read its clock through a library
// that shifts it, so whoever uses it checks that measured clocks agree. Read once per process.
const std::string& ClockId();

// What ClockId returns from now on. Before the server starts.
void SetClockIdForTesting(std::string id);

}  // namespace jobscope

#endif  // COMMON_CLOCK_CLOCK_ID_H_
