// SPDX-License-Identifier: Apache-2.0
//
// Defines the data of each linked unit (executable or shared library) that has sites: a hidden
// pointer to the enable mask, and one to the writer table. The mask itself is not exported: an
// exported variable would be copied into the executable (copy relocation), out of the page that the
// kernel wipes in children.
#ifndef JOBSCOPE_DETAIL_UNIT_H_
#define JOBSCOPE_DETAIL_UNIT_H_

#include <stdint.h>

#include "jobscope/detail/writer_abi.h"

#define JOBSCOPE_DETAIL_UNLIKELY(x) __builtin_expect(!!(x), 0)
// One copy per linked unit, whatever the number of files: weak merges them, hidden does not export
// them. (An inline variable would be a GNU_UNIQUE symbol, which prevents dlclose from unloading the
// unit.)
#define JOBSCOPE_DETAIL_PER_UNIT __attribute__((weak, visibility("hidden")))

extern "C" {
// Both are initialised before any code of the unit runs; the mask is a zero until the unit's
// constructor has found the recorder.
JOBSCOPE_DETAIL_PER_UNIT extern uint32_t jobscope_detail_no_mask;
JOBSCOPE_DETAIL_PER_UNIT extern const uint32_t* jobscope_detail_mask;
JOBSCOPE_DETAIL_PER_UNIT extern const struct jobscope_trace_writer_table* jobscope_detail_writer;

JOBSCOPE_DETAIL_PER_UNIT uint32_t jobscope_detail_no_mask = 0;
JOBSCOPE_DETAIL_PER_UNIT const uint32_t* jobscope_detail_mask = &jobscope_detail_no_mask;
JOBSCOPE_DETAIL_PER_UNIT const struct jobscope_trace_writer_table* jobscope_detail_writer = nullptr;
}

namespace jobscope {
inline namespace recording {
// Hidden: code inlined from here uses its own unit's pointers, never another unit's.
#pragma GCC visibility push(hidden)
namespace trace_detail {

// Runs when the unit is loaded, before its C++ constructors. Each file of a unit has one; the first
// one does the work. Runs under the loader's lock, or before main, so never concurrently.
__attribute__((constructor(101))) static void JoinRecorder() {
  if (jobscope_detail_writer != nullptr) return;
  jobscope_detail_writer = jobscope_trace_writer();
  jobscope_detail_mask = jobscope_detail_writer->mask;
}

inline bool Enabled(uint32_t bit) {
  return (__atomic_load_n(jobscope_detail_mask, __ATOMIC_RELAXED) & bit) != 0;
}

// Not null if Enabled returned true.
inline const struct jobscope_trace_writer_table* Writer() { return jobscope_detail_writer; }

inline void SetThreadName(const char* name) {
  // queried directly: must work before the unit's constructor, too
  jobscope_trace_writer()->set_thread_name(name);
}

}  // namespace trace_detail
#pragma GCC visibility pop
}  // namespace recording
}  // namespace jobscope

#endif  // JOBSCOPE_DETAIL_UNIT_H_
