// SPDX-License-Identifier: Apache-2.0
//
// Identifies which MONOTONIC clock a process reads.
#ifndef COMMON_CLOCK_CLOCK_ID_H_
#define COMMON_CLOCK_CLOCK_ID_H_

#include <string>

namespace jobscope {

// Returns an id that is equal for two processes with the same CLOCK_MONOTONIC: same boot of the
// same kernel (/proc/sys/kernel/random/boot_id), same time namespace. 32 hexadecimal digits; empty
// where /proc does not provide them. A hint, not a proof: a process may read its clock through a
// library that shifts it, so callers check that measured clocks agree. Read once per process.
const std::string& ClockId();

// Makes ClockId return `id`. Call it before the server starts.
void SetClockIdForTesting(std::string id);

}  // namespace jobscope

#endif  // COMMON_CLOCK_CLOCK_ID_H_
