// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's records, made by hand.
#ifndef TESTS_COLLECTORS_CUDA_RECORD_BUILDER_H_
#define TESTS_COLLECTORS_CUDA_RECORD_BUILDER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/records/record.h"
#include "collectors/cuda/records/record_layout.h"

namespace jobscope::cuda {

using Bytes = std::vector<uint8_t>;

class RecordBuilder {
 public:
  RecordBuilder(uint32_t kind, uint32_t version) : bytes_(RecordBytes(kind, version)) {
    Put(layout::kKind, kind);
  }
  template <typename T>
  RecordBuilder& Put(size_t offset, T value) {
    if (offset + sizeof(value) <= bytes_.size()) {
      std::memcpy(bytes_.data() + offset, &value, sizeof(value));
    }
    return *this;
  }
  Bytes Take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

// The bytes of an activity as CUPTI `version` writes them.
inline Bytes Encode(const Activity& a, uint32_t version) {
  switch (a.type) {
    case ActivityType::kKernel: {
      namespace at = layout::kernel;
      RecordBuilder record(kKindConcurrentKernel, version);
      record.Put(at::kRegisters, a.registers).Put(at::kStart, a.start_ns).Put(at::kEnd, a.end_ns);
      record.Put(at::kDevice, a.device).Put(at::kContext, a.context).Put(at::kStream, a.stream);
      for (size_t i = 0; i < 3; ++i) {
        record.Put(at::kGrid + 4 * i, a.grid[i]).Put(at::kBlock + 4 * i, a.block[i]);
        record.Put(at::kCluster + 4 * i, a.cluster[i]);
      }
      record.Put(at::kStaticShared, a.static_shared_bytes);
      record.Put(at::kDynamicShared, a.dynamic_shared_bytes);
      record.Put(at::kLocalPerThread, a.local_bytes_per_thread);
      record.Put(at::kCorrelation, a.correlation).Put(at::kName, a.name);
      record.Put(at::kGraphNode, a.graph_node).Put(at::kGraph, a.graph);
      return record.Take();
    }
    case ActivityType::kCopy: {
      namespace at = layout::copy;
      namespace peer_at = layout::peer_copy;
      const bool peer = a.sub_kind == 10;
      RecordBuilder record(peer ? kKindMemcpyPeer : kKindMemcpy, version);
      record.Put(at::kCopyKind, a.sub_kind).Put(at::kSourceMemory, a.source_memory);
      record.Put(at::kDestinationMemory, a.destination_memory);
      record.Put(at::kFlags, static_cast<uint8_t>(a.is_async ? 1 : 0)).Put(at::kBytes, a.bytes);
      record.Put(at::kStart, a.start_ns).Put(at::kEnd, a.end_ns).Put(at::kDevice, a.device);
      record.Put(at::kContext, a.context).Put(at::kStream, a.stream);
      if (peer) {
        record.Put(peer_at::kSourceDevice, a.peer_source);
        record.Put(peer_at::kDestinationDevice, a.peer_destination);
        record.Put(peer_at::kCorrelation, a.correlation);
        record.Put(peer_at::kGraphNode, a.graph_node).Put(peer_at::kGraph, a.graph);
      } else {
        record.Put(at::kCorrelation, a.correlation);
        record.Put(at::kGraphNode, a.graph_node).Put(at::kGraph, a.graph);
      }
      return record.Take();
    }
    case ActivityType::kSet: {
      namespace at = layout::set;
      RecordBuilder record(kKindMemset, version);
      record.Put(at::kValue, a.call).Put(at::kBytes, a.bytes).Put(at::kStart, a.start_ns);
      record.Put(at::kEnd, a.end_ns).Put(at::kDevice, a.device).Put(at::kContext, a.context);
      record.Put(at::kStream, a.stream).Put(at::kCorrelation, a.correlation);
      record.Put(at::kFlags, static_cast<uint16_t>(a.is_async ? 1 : 0));
      record.Put(at::kMemoryKind, static_cast<uint16_t>(a.source_memory));
      record.Put(at::kGraphNode, a.graph_node).Put(at::kGraph, a.graph);
      return record.Take();
    }
    case ActivityType::kApi: {
      namespace at = layout::api;
      RecordBuilder record(a.is_driver ? kKindDriver : kKindRuntime, version);
      record.Put(at::kCall, a.call).Put(at::kStart, a.start_ns).Put(at::kEnd, a.end_ns);
      record.Put(at::kThread, a.thread).Put(at::kCorrelation, a.correlation);
      record.Put(at::kResult, a.result);
      return record.Take();
    }
    case ActivityType::kSync: {
      namespace at = layout::sync;
      RecordBuilder record(kKindSynchronization, version);
      record.Put(at::kType, static_cast<uint32_t>(a.sub_kind)).Put(at::kStart, a.start_ns);
      record.Put(at::kEnd, a.end_ns).Put(at::kCorrelation, a.correlation);
      record.Put(at::kContext, a.context).Put(at::kStream, a.stream);
      return record.Take();
    }
    case ActivityType::kOverhead: {
      namespace at = layout::overhead;
      RecordBuilder record(kKindOverhead, version);
      record.Put(at::kOverheadKind, a.call).Put(at::kStart, a.start_ns).Put(at::kEnd, a.end_ns);
      record.Put(at::kObjectKind, uint32_t{a.thread != 0 ? 2u : 0u});
      record.Put(at::kObjectThread, a.thread).Put(at::kCorrelation, a.correlation);
      record.Put(at::kData, a.details);
      return record.Take();
    }
    case ActivityType::kMemory: {
      namespace at = layout::memory;
      RecordBuilder record(kKindMemory, version);
      record.Put(at::kOperation, static_cast<uint32_t>(a.sub_kind));
      record.Put(at::kMemoryKind, static_cast<uint32_t>(a.source_memory));
      record.Put(at::kCorrelation, a.correlation).Put(at::kAddress, a.address);
      record.Put(at::kBytes, a.bytes).Put(at::kTimestamp, a.start_ns).Put(at::kDevice, a.device);
      record.Put(at::kContext, a.context).Put(at::kStream, a.stream).Put(at::kName, a.name);
      return record.Take();
    }
    case ActivityType::kUnifiedMemory:
      break;
  }
  namespace at = layout::unified_memory;
  RecordBuilder record(kKindUnifiedMemory, version);
  record.Put(at::kCounter, static_cast<uint32_t>(a.sub_kind)).Put(at::kValue, a.bytes);
  record.Put(at::kStart, a.start_ns).Put(at::kEnd, a.end_ns).Put(at::kAddress, a.address);
  record.Put(at::kSource, a.peer_source).Put(at::kDestination, a.peer_destination);
  record.Put(at::kStream, a.stream);
  return record.Take();
}

inline Bytes Join(const std::vector<Bytes>& parts) {
  Bytes all;
  for (const Bytes& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// One of each type, with every field set to something of its own.
inline std::vector<Activity> OneOfEach() {
  std::vector<Activity> all;
  for (int i = 0; i <= static_cast<int>(ActivityType::kUnifiedMemory); ++i) {
    Activity a;
    a.type = static_cast<ActivityType>(i);
    a.sub_kind = 2;
    a.source_memory = 2;
    a.destination_memory = 3;
    a.is_async = true;
    a.registers = 64;
    a.start_ns = 1'700'000'000'000'000'100;
    a.end_ns = a.start_ns + 5'000;
    a.device = 1;
    a.context = 3;
    a.stream = 7;
    a.correlation = 4711;
    a.bytes = 1 << 20;
    a.address = 0x7f00'0000'1000;
    a.thread = 1234;
    a.call = a.type == ActivityType::kOverhead ? 3u << 16 : 211;
    a.result = 1;
    a.graph = 5;
    a.graph_node = 77;
    a.peer_source = 1;
    a.peer_destination = 2;
    for (int k = 0; k < 3; ++k) {
      a.grid[k] = 10 + k;
      a.block[k] = 32 + k;
      a.cluster[k] = 1 + static_cast<uint32_t>(k);
    }
    a.static_shared_bytes = 1024;
    a.dynamic_shared_bytes = 2048;
    a.local_bytes_per_thread = 16;
    a.name = "_Z6vecAddPKfS0_Pfi";
    all.push_back(a);
  }
  Activity peer = all[static_cast<size_t>(ActivityType::kCopy)];
  peer.sub_kind = 10;
  all.push_back(peer);
  return all;
}

}  // namespace jobscope::cuda

#endif  // TESTS_COLLECTORS_CUDA_RECORD_BUILDER_H_
