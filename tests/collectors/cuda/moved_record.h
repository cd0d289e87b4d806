// SPDX-License-Identifier: Apache-2.0
//
// Puts CUPTI's records from elsewhere into this process's time and memory.
#ifndef TESTS_COLLECTORS_CUDA_MOVED_RECORD_H_
#define TESTS_COLLECTORS_CUDA_MOVED_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/records/record.h"
#include "collectors/cuda/records/record_layout.h"

namespace jobscope::cuda {

// Where a record points to, from now on. `details`: allocated by malloc; the collector frees it.
struct RecordPointers {
  const char* name = nullptr;
  void* details = nullptr;
};

// `activity` is what ParseRecord has read at `data`. Times become `move_time` of them, except those
// that are 0: they are not known, and stay so.
template <typename MoveTime>
void MoveRecord(const Activity& activity, uint32_t version, const MoveTime& move_time,
                const RecordPointers& pointers, uint8_t* data) {
  namespace at = layout;
  const auto times = [&](std::initializer_list<size_t> offsets) {
    for (const size_t offset : offsets) {
      uint64_t ns = 0;
      std::memcpy(&ns, data + offset, sizeof(ns));
      if (ns != 0) ns = move_time(ns);
      std::memcpy(data + offset, &ns, sizeof(ns));
    }
  };
  const auto pointer = [data](size_t offset, const void* target) {
    std::memcpy(data + offset, &target, sizeof(target));
  };
  switch (activity.type) {
    case ActivityType::kKernel:
      times({at::kernel::kStart, at::kernel::kEnd});
      return pointer(at::kernel::kName, pointers.name);
    case ActivityType::kCopy:
      return times({at::copy::kStart, at::copy::kEnd});
    case ActivityType::kSet:
      return times({at::set::kStart, at::set::kEnd});
    case ActivityType::kApi:
      return times({at::api::kStart, at::api::kEnd});
    case ActivityType::kSync:
      return times({at::sync::kStart, at::sync::kEnd});
    case ActivityType::kOverhead:
      times({at::overhead::kStart, at::overhead::kEnd});
      if (RecordBytes(kKindOverhead, version) > at::overhead::kData) {
        pointer(at::overhead::kData, pointers.details);
      }
      return;
    case ActivityType::kMemory:
      times({at::memory::kTimestamp});
      return pointer(at::memory::kName, pointers.name);
    case ActivityType::kUnifiedMemory:
      return times({at::unified_memory::kStart, at::unified_memory::kEnd});
  }
}

}  // namespace jobscope::cuda

#endif  // TESTS_COLLECTORS_CUDA_MOVED_RECORD_H_
