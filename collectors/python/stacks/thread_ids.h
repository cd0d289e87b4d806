// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_PYTHON_STACKS_THREAD_IDS_H_
#define COLLECTORS_PYTHON_STACKS_THREAD_IDS_H_

#include <cstdint>

namespace jobscope::python {

// Returns the OS thread id of a living thread of this process, by its pthread_t; 0 if unknown.
int64_t TidOfPthread(uint64_t pthread);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_THREAD_IDS_H_
