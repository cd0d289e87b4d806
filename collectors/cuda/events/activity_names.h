// SPDX-License-Identifier: Apache-2.0
//
// Converts numbers in CUPTI's records to text.
#ifndef COLLECTORS_CUDA_EVENTS_ACTIVITY_NAMES_H_
#define COLLECTORS_CUDA_EVENTS_ACTIVITY_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "collectors/cuda/records/record.h"

namespace jobscope::cuda {

inline constexpr uint8_t kMemoryAllocated = 1;
inline constexpr uint8_t kMemoryReleased = 2;
// CUpti_ActivityUnifiedMemoryCounterKind
inline constexpr uint8_t kCpuPageFault = 3;

// Returns the name in XProf's spelling, which determines its categories (input, output, device to
// device). Arrays and a peer's memory count as device memory.
std::string_view CopyName(uint8_t copy_kind);
// Returns "num_bytes:4096\n…", of which XProf reads the first entry.
std::string CopyDetails(const Activity& copy);
std::string SetDetails(const Activity& set);
std::string_view MemoryKindName(uint8_t memory_kind);
bool IsMemoryOfTheGpu(uint8_t memory_kind);
std::string_view SyncName(uint8_t type);
std::string_view OverheadName(uint32_t kind);
std::string_view UnifiedMemoryName(uint8_t counter);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_EVENTS_ACTIVITY_NAMES_H_
