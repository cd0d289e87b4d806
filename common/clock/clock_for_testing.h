// SPDX-License-Identifier: Apache-2.0
//
// Changes what RealtimeNs, WorkerMonotonicNs and SampleClocks read in this process, for tests of
// clocks that differ or part.
#ifndef COMMON_CLOCK_CLOCK_FOR_TESTING_H_
#define COMMON_CLOCK_CLOCK_FOR_TESTING_H_

#include <cstdint>

namespace jobscope {

// Shifts the REALTIME that RealtimeNs and SampleClocks read. Thread-safe.
void ShiftRealtimeForTesting(int64_t shift_ns);

// Shifts the MONOTONIC that WorkerMonotonicNs and SampleClocks read, and the BOOTTIME that
// SampleClocks reads. Works only where ticks are TSC. Thread-safe.
void ShiftMonotonicForTesting(int64_t monotonic_ns, int64_t boottime_ns);

// Shifts the ticks that SampleClocks reads, not those of records: the counter began anew.
// Works only where ticks are TSC. Thread-safe.
void ShiftTicksForTesting(int64_t ticks);

// From now on, MONOTONIC and BOOTTIME run `rate` times as fast against the ticks, without a jump:
// the virtual machine was migrated. Works only where ticks are TSC. Other threads may read the
// clocks meanwhile only if the rate was 1.
void SetMonotonicRateForTesting(double rate);

}  // namespace jobscope

#endif  // COMMON_CLOCK_CLOCK_FOR_TESTING_H_
