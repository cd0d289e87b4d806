// SPDX-License-Identifier: Apache-2.0
//
// The recorder, as the NVTX handler sees it.
#ifndef COLLECTORS_NVTX_RECORDER_H_
#define COLLECTORS_NVTX_RECORDER_H_

#include <atomic>
#include <cstdint>

#include "jobscope/detail/writer_abi.h"

namespace jobscope::nvtx {

// NVTX events are what a user wrote into the program: recorded at every level.
inline constexpr uint32_t kBit = JOBSCOPE_BIT_LEVEL1;

// A C struct and the function that returns it share a name in the writer's ABI.
using WriterTable = struct ::jobscope_trace_writer_table;

// Set before the first function of ours is handed out, and never changed: relaxed loads will do,
// because whoever calls us has seen the function pointer that was stored later (NVTX stores it with
// full barriers around it).
extern std::atomic<const uint32_t*> g_mask;
extern std::atomic<const WriterTable*> g_writer;

inline bool Recording() {
  return (__atomic_load_n(g_mask.load(std::memory_order_relaxed), __ATOMIC_RELAXED) & kBit) != 0;
}
inline const WriterTable* Writer() { return g_writer.load(std::memory_order_relaxed); }

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_RECORDER_H_
