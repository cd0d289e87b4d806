// SPDX-License-Identifier: Apache-2.0
//
// Defines the offsets of fields in CUPTI's activity records. Within a family of structs, a newer
// one only appends to the older (or uses former padding), so an offset holds for every version from
// the one that introduced the field. A test compiles these against NVIDIA's header if available.
#ifndef COLLECTORS_CUDA_RECORDS_RECORD_LAYOUT_H_
#define COLLECTORS_CUDA_RECORDS_RECORD_LAYOUT_H_

#include <cstddef>

namespace jobscope::cuda::layout {

inline constexpr size_t kKind = 0;  // u32, in every record

namespace kernel {
inline constexpr size_t kRegisters = 6;  // u16
inline constexpr size_t kStart = 16;
inline constexpr size_t kEnd = 24;
inline constexpr size_t kDevice = 40;
inline constexpr size_t kContext = 44;
inline constexpr size_t kStream = 48;
inline constexpr size_t kGrid = 52;
inline constexpr size_t kBlock = 64;
inline constexpr size_t kStaticShared = 76;
inline constexpr size_t kDynamicShared = 80;
inline constexpr size_t kLocalPerThread = 84;
inline constexpr size_t kCorrelation = 92;
inline constexpr size_t kName = 104;
inline constexpr size_t kGraphNode = 144;  // 11.0
inline constexpr size_t kGraph = 156;      // 11.1
inline constexpr size_t kCluster = 176;    // 11.8
}  // namespace kernel

namespace copy {
inline constexpr size_t kCopyKind = 4;  // u8, as are the next three
inline constexpr size_t kSourceMemory = 5;
inline constexpr size_t kDestinationMemory = 6;
inline constexpr size_t kFlags = 7;
inline constexpr size_t kBytes = 8;
inline constexpr size_t kStart = 16;
inline constexpr size_t kEnd = 24;
inline constexpr size_t kDevice = 32;
inline constexpr size_t kContext = 36;
inline constexpr size_t kStream = 40;
inline constexpr size_t kCorrelation = 44;
inline constexpr size_t kGraphNode = 64;  // 11.0
inline constexpr size_t kGraph = 72;      // 11.1
}  // namespace copy

// Same as copies, up to the stream.
namespace peer_copy {
inline constexpr size_t kSourceDevice = 44;
inline constexpr size_t kDestinationDevice = 52;
inline constexpr size_t kCorrelation = 60;
inline constexpr size_t kGraphNode = 72;  // 11.0
inline constexpr size_t kGraph = 80;      // 11.1
}  // namespace peer_copy

namespace set {
inline constexpr size_t kValue = 4;
inline constexpr size_t kBytes = 8;
inline constexpr size_t kStart = 16;
inline constexpr size_t kEnd = 24;
inline constexpr size_t kDevice = 32;
inline constexpr size_t kContext = 36;
inline constexpr size_t kStream = 40;
inline constexpr size_t kCorrelation = 44;
inline constexpr size_t kFlags = 48;       // u16
inline constexpr size_t kMemoryKind = 50;  // u16
inline constexpr size_t kGraphNode = 64;   // 11.0
inline constexpr size_t kGraph = 72;       // 11.1
}  // namespace set

namespace api {
inline constexpr size_t kCall = 4;
inline constexpr size_t kStart = 8;
inline constexpr size_t kEnd = 16;
inline constexpr size_t kThread = 28;
inline constexpr size_t kCorrelation = 32;
inline constexpr size_t kResult = 36;
}  // namespace api

namespace sync {
inline constexpr size_t kType = 4;
inline constexpr size_t kStart = 8;
inline constexpr size_t kEnd = 16;
inline constexpr size_t kCorrelation = 24;
inline constexpr size_t kContext = 28;
inline constexpr size_t kStream = 32;
}  // namespace sync

namespace overhead {
inline constexpr size_t kOverheadKind = 4;
inline constexpr size_t kObjectKind = 8;
inline constexpr size_t kObjectThread = 16;  // after the process id
inline constexpr size_t kStart = 24;
inline constexpr size_t kEnd = 32;
inline constexpr size_t kCorrelation = 40;  // 12.3
inline constexpr size_t kData = 48;         // 12.4; malloc'ed by CUPTI, freed by us
}  // namespace overhead

namespace memory {
inline constexpr size_t kOperation = 4;
inline constexpr size_t kMemoryKind = 8;
inline constexpr size_t kCorrelation = 12;
inline constexpr size_t kAddress = 16;
inline constexpr size_t kBytes = 24;
inline constexpr size_t kTimestamp = 32;
inline constexpr size_t kDevice = 52;
inline constexpr size_t kContext = 56;
inline constexpr size_t kStream = 60;
inline constexpr size_t kName = 64;
}  // namespace memory

namespace unified_memory {
inline constexpr size_t kCounter = 4;
inline constexpr size_t kValue = 8;
inline constexpr size_t kStart = 16;
inline constexpr size_t kEnd = 24;
inline constexpr size_t kAddress = 32;
inline constexpr size_t kSource = 40;
inline constexpr size_t kDestination = 44;
inline constexpr size_t kStream = 48;
}  // namespace unified_memory

}  // namespace jobscope::cuda::layout

#endif  // COLLECTORS_CUDA_RECORDS_RECORD_LAYOUT_H_
