// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_PYTHON_STACKS_THREAD_IDS_H_
#define COLLECTORS_PYTHON_STACKS_THREAD_IDS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace jobscope::python {

// Returns the OS thread id of a living thread of this process, by its pthread_t; 0 if unknown. For
// a thread that cannot end meanwhile: with the GIL held.
int64_t TidOfPthread(uint64_t pthread);

// Returns where the C library keeps a thread's OS id, as a distance from its pthread_t: found in
// the calling thread's descriptor, and checked on the living threads `pthreads`. Absent: not found.
std::optional<size_t> OffsetOfTid(const std::vector<uint64_t>& pthreads);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_THREAD_IDS_H_
