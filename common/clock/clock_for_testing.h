// SPDX-License-Identifier: Apache-2.0
//
// Changes what MonotonicNs and SampleClocks read, for tests of ticks and clocks that part. Works
// only where ticks are TSC.
#ifndef COMMON_CLOCK_CLOCK_FOR_TESTING_H_
#define COMMON_CLOCK_CLOCK_FOR_TESTING_H_

#include <cstdint>

namespace jobscope {

// Shifts the ticks that SampleClocks reads, not those of records: the counter began anew.
// Thread-safe.
void ShiftTicksForTesting(int64_t ticks);

// From now on, MONOTONIC and BOOTTIME run `rate` times as fast against the ticks, without a jump:
// the virtual machine was migrated. Other threads may read the clocks meanwhile only if the rate
// was 1.
void SetMonotonicRateForTesting(double rate);

}  // namespace jobscope

#endif  // COMMON_CLOCK_CLOCK_FOR_TESTING_H_
