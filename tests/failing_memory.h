// SPDX-License-Identifier: Apache-2.0
//
// Replaces the operator new of a program, or of a library that is linked with -Bsymbolic, by one
// that fails as a test says.
#ifndef TESTS_FAILING_MEMORY_H_
#define TESTS_FAILING_MEMORY_H_

namespace jobscope {

// True on threads whose names begin with "jobscope-".
bool IsThreadOfOurs();

// From the allocation number `at` (from 1) on, the next `failures` allocations of the threads that
// `is_meant` is true on fail.
void FailAllocations(int at, int failures, bool (*is_meant)() = &IsThreadOfOurs);

// How many of them are left.
int FailuresLeft();

// Lets all allocations succeed. Returns how many failures were left.
int StopFailing();

}  // namespace jobscope

#endif  // TESTS_FAILING_MEMORY_H_
