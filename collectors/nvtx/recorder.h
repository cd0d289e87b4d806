// SPDX-License-Identifier: Apache-2.0
//
// Declares the part of the recorder that the NVTX handler uses.
#ifndef COLLECTORS_NVTX_RECORDER_H_
#define COLLECTORS_NVTX_RECORDER_H_

#include <atomic>
#include <cstdint>

#include "jobscope/detail/writer_abi.h"

namespace jobscope::nvtx {

// NVTX events were written by the user into the program, so they are recorded at every level.
inline constexpr uint32_t kBit = JOBSCOPE_BIT_LEVEL1;

// In the writer's ABI, a C struct and the function that returns it share a name.
using WriterTable = struct ::jobscope_trace_writer_table;

// Set before our first function is published, and never changed. Relaxed loads suffice: a caller
// has loaded the function pointer, which was stored later (NVTX stores it with full barriers).
extern std::atomic<const uint32_t*> g_mask;
extern std::atomic<const WriterTable*> g_writer;

inline bool Recording() {
  return (__atomic_load_n(g_mask.load(std::memory_order_relaxed), __ATOMIC_RELAXED) & kBit) != 0;
}
inline const WriterTable* Writer() { return g_writer.load(std::memory_order_relaxed); }

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_RECORDER_H_
