// SPDX-License-Identifier: Apache-2.0
//
// Replaces the program's operator new by one that fails on threads of ours, as a test says.
#ifndef TESTS_SERVER_FAILING_MEMORY_H_
#define TESTS_SERVER_FAILING_MEMORY_H_

namespace jobscope {

// From the allocation number `at` (from 1) on, the next `failures` allocations of threads of ours
// fail.
void FailAllocations(int at, int failures);

// How many of them are left.
int FailuresLeft();

// Lets all allocations succeed. Returns how many failures were left.
int StopFailing();

}  // namespace jobscope

#endif  // TESTS_SERVER_FAILING_MEMORY_H_
