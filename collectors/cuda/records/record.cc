// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/record.h"

#include <cstring>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/records/record_layout.h"

namespace jobscope::cuda {
namespace {

constexpr uint8_t kAsyncCopyFlag = 1;  // CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC, equal for memsets
constexpr uint32_t kObjectIsThread = 2;
// CUpti_ActivityUnifiedMemoryCounterKind: CPU_PAGE_FAULT_COUNT, THRASHING, REMOTE_MAP.
constexpr bool IsInstant(uint32_t counter) { return counter == 3 || counter == 5 || counter == 7; }
constexpr uint32_t kCommandBufferFull = 6u << 16;  // CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL

// Reads fields of one record whose size has been checked.
class Fields {
 public:
  Fields(const uint8_t* data, size_t size) : data_(data), size_(size) {}

  template <typename T>
  T Get(size_t offset) const {
    T value{};
    if (offset + sizeof(T) <= size_) std::memcpy(&value, data_ + offset, sizeof(T));
    return value;
  }
  uint8_t U8(size_t offset) const { return Get<uint8_t>(offset); }
  uint16_t U16(size_t offset) const { return Get<uint16_t>(offset); }
  uint32_t U32(size_t offset) const { return Get<uint32_t>(offset); }
  uint64_t U64(size_t offset) const { return Get<uint64_t>(offset); }

 private:
  const uint8_t* const data_;
  const size_t size_;
};

void ReadKernel(const Fields& in, uint32_t version, Activity* out) {
  namespace at = layout::kernel;
  out->type = ActivityType::kKernel;
  out->registers = in.U16(at::kRegisters);
  out->start_ns = in.U64(at::kStart);
  out->end_ns = in.U64(at::kEnd);
  out->device = in.U32(at::kDevice);
  out->context = in.U32(at::kContext);
  out->stream = in.U32(at::kStream);
  for (size_t i = 0; i < 3; ++i) {
    out->grid[i] = in.Get<int32_t>(at::kGrid + 4 * i);
    out->block[i] = in.Get<int32_t>(at::kBlock + 4 * i);
  }
  out->static_shared_bytes = in.Get<int32_t>(at::kStaticShared);
  out->dynamic_shared_bytes = in.Get<int32_t>(at::kDynamicShared);
  out->local_bytes_per_thread = in.U32(at::kLocalPerThread);
  out->correlation = in.U32(at::kCorrelation);
  out->name = in.Get<const char*>(at::kName);
  if (version >= kCupti11_0) out->graph_node = in.U64(at::kGraphNode);
  if (version >= kCupti11_1) out->graph = in.U32(at::kGraph);
  if (version >= kCupti11_8) {
    for (size_t i = 0; i < 3; ++i) out->cluster[i] = in.U32(at::kCluster + 4 * i);
  }
}

void ReadCopy(const Fields& in, uint32_t version, bool peer, Activity* out) {
  namespace at = layout::copy;
  out->type = ActivityType::kCopy;
  out->sub_kind = in.U8(at::kCopyKind);
  out->source_memory = in.U8(at::kSourceMemory);
  out->destination_memory = in.U8(at::kDestinationMemory);
  out->is_async = (in.U8(at::kFlags) & kAsyncCopyFlag) != 0;
  out->bytes = in.U64(at::kBytes);
  out->start_ns = in.U64(at::kStart);
  out->end_ns = in.U64(at::kEnd);
  out->device = in.U32(at::kDevice);
  out->context = in.U32(at::kContext);
  out->stream = in.U32(at::kStream);
  if (peer) {
    namespace peer_at = layout::peer_copy;
    out->peer_source = in.U32(peer_at::kSourceDevice);
    out->peer_destination = in.U32(peer_at::kDestinationDevice);
    out->correlation = in.U32(peer_at::kCorrelation);
    if (version >= kCupti11_0) out->graph_node = in.U64(peer_at::kGraphNode);
    if (version >= kCupti11_1) out->graph = in.U32(peer_at::kGraph);
    return;
  }
  out->correlation = in.U32(at::kCorrelation);
  if (version >= kCupti11_0) out->graph_node = in.U64(at::kGraphNode);
  if (version >= kCupti11_1) out->graph = in.U32(at::kGraph);
}

void ReadSet(const Fields& in, uint32_t version, Activity* out) {
  namespace at = layout::set;
  out->type = ActivityType::kSet;
  out->call = in.U32(at::kValue);
  out->bytes = in.U64(at::kBytes);
  out->start_ns = in.U64(at::kStart);
  out->end_ns = in.U64(at::kEnd);
  out->device = in.U32(at::kDevice);
  out->context = in.U32(at::kContext);
  out->stream = in.U32(at::kStream);
  out->correlation = in.U32(at::kCorrelation);
  out->is_async = (in.U16(at::kFlags) & kAsyncCopyFlag) != 0;
  out->source_memory = static_cast<uint8_t>(in.U16(at::kMemoryKind));
  if (version >= kCupti11_0) out->graph_node = in.U64(at::kGraphNode);
  if (version >= kCupti11_1) out->graph = in.U32(at::kGraph);
}

void ReadApi(const Fields& in, bool driver, Activity* out) {
  namespace at = layout::api;
  out->type = ActivityType::kApi;
  out->is_driver = driver;
  out->call = in.U32(at::kCall);
  out->start_ns = in.U64(at::kStart);
  out->end_ns = in.U64(at::kEnd);
  out->thread = in.U32(at::kThread);
  out->correlation = in.U32(at::kCorrelation);
  out->result = in.U32(at::kResult);
}

void ReadSync(const Fields& in, Activity* out) {
  namespace at = layout::sync;
  out->type = ActivityType::kSync;
  out->sub_kind = static_cast<uint8_t>(in.U32(at::kType));
  out->start_ns = in.U64(at::kStart);
  out->end_ns = in.U64(at::kEnd);
  out->correlation = in.U32(at::kCorrelation);
  out->context = in.U32(at::kContext);
  out->stream = in.U32(at::kStream);
}

void ReadOverhead(const Fields& in, uint32_t version, Activity* out) {
  namespace at = layout::overhead;
  out->type = ActivityType::kOverhead;
  out->call = in.U32(at::kOverheadKind);
  if (in.U32(at::kObjectKind) == kObjectIsThread) out->thread = in.U32(at::kObjectThread);
  out->start_ns = in.U64(at::kStart);
  out->end_ns = in.U64(at::kEnd);
  if (version >= kCupti12_3) out->correlation = in.U32(at::kCorrelation);
  // For other kinds the pointer is undocumented.
  if (version >= kCupti12_4 && out->call == kCommandBufferFull) {
    out->details = in.Get<void*>(at::kData);
  }
}

void ReadMemory(const Fields& in, Activity* out) {
  namespace at = layout::memory;
  out->type = ActivityType::kMemory;
  out->sub_kind = static_cast<uint8_t>(in.U32(at::kOperation));
  out->source_memory = static_cast<uint8_t>(in.U32(at::kMemoryKind));
  out->correlation = in.U32(at::kCorrelation);
  out->address = in.U64(at::kAddress);
  out->bytes = in.U64(at::kBytes);
  out->start_ns = out->end_ns = in.U64(at::kTimestamp);
  out->device = in.U32(at::kDevice);
  out->context = in.U32(at::kContext);
  out->stream = in.U32(at::kStream);
  out->name = in.Get<const char*>(at::kName);
}

void ReadUnifiedMemory(const Fields& in, Activity* out) {
  namespace at = layout::unified_memory;
  out->type = ActivityType::kUnifiedMemory;
  out->sub_kind = static_cast<uint8_t>(in.U32(at::kCounter));
  out->bytes = in.U64(at::kValue);
  out->start_ns = in.U64(at::kStart);
  // For instants CUPTI leaves the end uninitialised.
  out->end_ns = IsInstant(in.U32(at::kCounter)) ? out->start_ns : in.U64(at::kEnd);
  out->address = in.U64(at::kAddress);
  out->peer_source = in.U32(at::kSource);
  out->peer_destination = in.U32(at::kDestination);
  out->stream = in.U32(at::kStream);
}

size_t KernelBytes(uint32_t version) {
  if (version >= kCupti13_0) return 216;
  if (version >= kCupti12_2) return 208;
  if (version >= kCupti11_8) return 200;  // 12.0 and 12.1 have 208 and report the version of 11.8
  if (version >= kCupti11_6) return 176;
  return version >= kCupti11_2 ? 168 : 160;
}

}  // namespace

bool IsDeviceWork(ActivityType type) {
  return type == ActivityType::kKernel || type == ActivityType::kCopy || type == ActivityType::kSet;
}

size_t RecordBytes(uint32_t kind, uint32_t version) {
  switch (kind) {
    case kKindKernel:
    case kKindConcurrentKernel:
      return KernelBytes(version);
    case kKindMemcpy:
    case kKindMemcpyPeer: {
      const size_t peer = kind == kKindMemcpyPeer ? 8 : 0;
      if (version >= kCupti12_8) return 96;  // the same for both: copies got a copy count
      if (version >= kCupti11_6) return 88 + peer;
      return (version >= kCupti11_1 ? 80 : 72) + peer;
    }
    case kKindMemset:
      if (version >= kCupti11_6) return 88;
      return version >= kCupti11_1 ? 80 : 72;
    case kKindDriver:
    case kKindRuntime:
      return 40;
    case kKindSynchronization:
      return version >= kCupti12_8 ? 56 : 40;
    case kKindOverhead:
      if (version >= kCupti12_4) return 56;
      return version >= kCupti12_3 ? 48 : 40;
    case kKindMemory:
      if (version < kCupti11_2) return 0;
      if (version >= kCupti12_6) return 128;
      return version >= kCupti11_6 ? 120 : 112;
    case kKindUnifiedMemory:
      return version >= kCupti12_8 ? 104 : 64;
    default:
      return 0;
  }
}

uint64_t CountRecords(const uint8_t* data, size_t size, uint32_t version) {
  uint64_t count = 0;
  for (uint32_t kind = 0; size >= sizeof(kind); ++count) {
    std::memcpy(&kind, data + layout::kKind, sizeof(kind));
    const size_t bytes = RecordBytes(kind, version);
    if (bytes == 0 || bytes > size) break;
    data += bytes;
    size -= bytes;
  }
  return count;
}

ParseResult ParseRecord(const uint8_t* data, size_t size, uint32_t version, Activity* out) {
  *out = Activity();
  if (size < sizeof(uint32_t)) return ParseResult::kTruncated;
  uint32_t kind = 0;
  std::memcpy(&kind, data + layout::kKind, sizeof(kind));
  const size_t bytes = RecordBytes(kind, version);
  if (bytes == 0) return ParseResult::kUnknown;
  if (size < bytes) return ParseResult::kTruncated;
  const Fields in(data, bytes);
  switch (kind) {
    case kKindKernel:
    case kKindConcurrentKernel:
      ReadKernel(in, version, out);
      break;
    case kKindMemcpy:
    case kKindMemcpyPeer:
      ReadCopy(in, version, kind == kKindMemcpyPeer, out);
      break;
    case kKindMemset:
      ReadSet(in, version, out);
      break;
    case kKindDriver:
    case kKindRuntime:
      ReadApi(in, kind == kKindDriver, out);
      break;
    case kKindSynchronization:
      ReadSync(in, out);
      break;
    case kKindOverhead:
      ReadOverhead(in, version, out);
      break;
    case kKindMemory:
      ReadMemory(in, out);
      break;
    default:
      ReadUnifiedMemory(in, out);
  }
  return ParseResult::kOk;
}

}  // namespace jobscope::cuda
