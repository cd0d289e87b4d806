// SPDX-License-Identifier: Apache-2.0
//
// Parses CUPTI's activity records by our own table of offsets.
#ifndef COLLECTORS_CUDA_RECORDS_RECORD_H_
#define COLLECTORS_CUDA_RECORDS_RECORD_H_

#include <cstddef>
#include <cstdint>

namespace jobscope::cuda {

enum class ActivityType : uint8_t {
  kKernel,
  kCopy,
  kSet,
  kApi,   // a runtime or driver API call
  kSync,  // waiting for an event, a stream, a context
  kOverhead,
  kMemory,  // allocation or release
  kUnifiedMemory,
};

// Returns whether a GPU executes it, unlike calls and memory events.
bool IsDeviceWork(ActivityType type);

// One record of any kind; fields that a kind does not have are 0. Times are CUPTI's nanoseconds
// (CLOCK_REALTIME); 0: CUPTI did not report the time.
struct Activity {
  ActivityType type = ActivityType::kKernel;
  // Copies: CUpti_ActivityMemcpyKind; waits: CUpti_ActivitySynchronizationType; memory: 1
  // allocation, 2 release; unified memory: the counter kind.
  uint8_t sub_kind = 0;
  // CUpti_ActivityMemoryKind of the source; for memsets and allocations, of the target.
  uint8_t source_memory = 0;
  uint8_t destination_memory = 0;  // copies
  bool is_async = false;           // copies and memsets
  bool is_driver = false;          // API: a driver call
  uint16_t registers = 0;          // kernels, per thread
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  uint32_t device = 0;
  uint32_t context = 0;
  uint32_t stream = 0;
  uint32_t correlation = 0;
  uint64_t bytes = 0;    // copies, memsets, memory
  uint64_t address = 0;  // memory
  uint32_t thread = 0;   // API; overhead: the object's thread, else 0
  uint32_t call = 0;     // API: the callback id; overhead: its kind; memset: the value
  uint32_t result = 0;   // API: what the call returned
  uint32_t graph = 0;
  uint64_t graph_node = 0;
  uint32_t peer_source = 0;  // peer copies: devices
  uint32_t peer_destination = 0;
  // Kernels only.
  int32_t grid[3] = {};
  int32_t block[3] = {};
  int32_t static_shared_bytes = 0;
  int32_t dynamic_shared_bytes = 0;
  uint32_t local_bytes_per_thread = 0;
  uint32_t cluster[3] = {};
  // Name of the kernel or allocation. The string belongs to CUPTI and is copied before the buffer
  // is returned.
  const char* name = nullptr;
  // For some overheads: details allocated by CUPTI, which its client must free().
  void* details = nullptr;
};

enum class ParseResult {
  kOk,
  kUnknown,    // a kind that is unknown or unused
  kTruncated,  // fewer bytes than such a record has in that version
};

// Parses the record at `data`, reading at most `size` bytes. Fields that CUPTI `version` does not
// have stay 0. Does not follow pointers.
ParseResult ParseRecord(const uint8_t* data, size_t size, uint32_t version, Activity* out);

// Returns the minimum size of a record of this kind as CUPTI `version` writes it; 0: unknown. Only
// for kinds that ParseRecord knows. tests/collectors/cuda/wheels_test.sh compares the sizes with
// real libraries.
size_t RecordBytes(uint32_t kind, uint32_t version);

// Returns the number of records at `data` by these sizes, without CUPTI; ends at the first record
// of an unknown kind.
uint64_t CountRecords(const uint8_t* data, size_t size, uint32_t version);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_RECORD_H_
