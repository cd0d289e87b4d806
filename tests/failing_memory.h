// SPDX-License-Identifier: Apache-2.0
//
// Replaces the operator new of a program, or of a library that is linked with -Bsymbolic, by one
// that fails on request.
#ifndef TESTS_FAILING_MEMORY_H_
#define TESTS_FAILING_MEMORY_H_

namespace jobscope {

// True on threads whose names begin with "jobscope-".
bool IsThreadOfOurs();

// Lets `failures` allocations fail, from the `at`-th one from now on (1: the next). Counts only
// allocations on threads for which `is_meant` returns true.
void FailAllocations(int at, int failures, bool (*is_meant)() = &IsThreadOfOurs);

// Returns how many of these failures are still to come.
int FailuresLeft();

// Lets all allocations succeed. Returns how many failures were still to come.
int StopFailing();

}  // namespace jobscope

#endif  // TESTS_FAILING_MEMORY_H_
