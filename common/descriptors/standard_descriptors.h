// SPDX-License-Identifier: Apache-2.0
//
// Keeps descriptors of ours away from the numbers of standard input, output and error.
#ifndef COMMON_DESCRIPTORS_STANDARD_DESCRIPTORS_H_
#define COMMON_DESCRIPTORS_STANDARD_DESCRIPTORS_H_

namespace jobscope {

// Call it with each new descriptor that outlives the call that opens it. A job may have closed a
// standard descriptor; the kernel then gives its number to the next one opened, and what the job
// prints would go to a client or into a trace. Returns `fd`, or, if it has such a number, a
// duplicate above, which is closed on exec; `fd` is then closed. Returns -1, with errno, if `fd` is
// negative or no number above is free. Thread-safe.
int AboveStandard(int fd);

// Opens /dev/null for each standard descriptor that is closed, so that no later descriptor gets its
// number. `flags`: of open(), such as O_CLOEXEC. May be called by the first initialiser of a
// program: uses no other. Ignores failures.
void OpenClosedStandard(int flags);

}  // namespace jobscope

#endif  // COMMON_DESCRIPTORS_STANDARD_DESCRIPTORS_H_
