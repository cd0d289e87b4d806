// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's activity records, read by our own offsets.
#ifndef COLLECTORS_CUDA_RECORDS_RECORD_H_
#define COLLECTORS_CUDA_RECORDS_RECORD_H_

#include <cstddef>
#include <cstdint>

namespace jobscope::cuda {

enum class ActivityType : uint8_t {
  kKernel,
  kCopy,
  kSet,
  kApi,   // a call of the runtime or driver API
  kSync,  // waiting for an event, a stream, a context
  kOverhead,
  kMemory,  // allocation or release
  kGraph,   // a whole CUDA graph
  kUnifiedMemory,
};

// One record, of whatever kind; what a kind does not have is 0. Times are CUPTI's nanoseconds (of
// CLOCK_REALTIME); a 0 means that CUPTI could not tell.
struct Activity {
  ActivityType type = ActivityType::kKernel;
  // Of copies: CUpti_ActivityMemcpyKind; of waits: CUpti_ActivitySynchronizationType; of memory:
  // 1 allocation, 2 release; of unified memory: the counter kind.
  uint8_t sub_kind = 0;
  uint8_t source_memory = 0;       // CUpti_ActivityMemoryKind; of sets and allocations: the target
  uint8_t destination_memory = 0;  // copies
  bool is_async = false;           // copies and sets
  bool is_driver = false;          // API: a driver call
  uint16_t registers = 0;          // kernels, per thread
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  uint32_t device = 0;
  uint32_t context = 0;
  uint32_t stream = 0;
  uint32_t correlation = 0;
  uint64_t bytes = 0;    // copies, sets, memory
  uint64_t address = 0;  // memory
  uint32_t thread = 0;   // API; of overheads: the object's thread, else 0
  uint32_t call = 0;     // API: the callback id; overhead: its kind; sets: the value
  uint32_t result = 0;   // API: what the call returned
  uint32_t graph = 0;
  uint64_t graph_node = 0;
  uint32_t peer_source = 0;  // peer copies: devices
  uint32_t peer_destination = 0;
  // Kernels.
  int32_t grid[3] = {};
  int32_t block[3] = {};
  int32_t static_shared_bytes = 0;
  int32_t dynamic_shared_bytes = 0;
  uint32_t local_bytes_per_thread = 0;
  uint32_t cluster[3] = {};
  uint64_t queued_ns = 0;
  uint64_t submitted_ns = 0;
  // The kernel's name, or the allocation's: a string of CUPTI's, which is copied before the buffer
  // is given back.
  const char* name = nullptr;
  // Of overheads that have it: details which CUPTI allocated, and leaves to its client to free().
  void* details = nullptr;
};

enum class ParseResult {
  kOk,
  kUnknown,    // a kind that we do not know, or have no use for
  kTruncated,  // fewer bytes than the version says that such a record has
};

// Reads the record at `data`, of which `size` bytes may be touched. Fields that CUPTI `version`
// does not have yet stay 0. Does not follow pointers.
ParseResult ParseRecord(const uint8_t* data, size_t size, uint32_t version, Activity* out);

// Bytes of a record of this kind as CUPTI `version` writes it at least; 0: not known. Only kinds
// that ParseRecord knows. tests/collectors/cuda/wheels_test.sh compares them with real libraries.
size_t RecordBytes(uint32_t kind, uint32_t version);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_RECORD_H_
