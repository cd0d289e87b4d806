// SPDX-License-Identifier: Apache-2.0
//
// Reads what the allocators of TensorFlow, XLA and CUDA report with each block that they allocate
// or free.
#ifndef ANALYSIS_TRACE_ALLOCATOR_SAMPLES_H_
#define ANALYSIS_TRACE_ALLOCATOR_SAMPLES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "analysis/trace/xspace_reader.h"

namespace jobscope::analysis {

// One allocator, or one kind of memory of one device. Bytes.
class Allocator {
 public:
  // A point in time stands for the largest use in an even part of the capture.
  static constexpr size_t kMaxPoints = 256;

  // What one event says. Events come thread by thread, so in any order of time.
  struct Event {
    int64_t time_ns = 0;
    bool is_allocation = false;
    int64_t in_use = 0;
    std::optional<int64_t> reserved;
    std::optional<int64_t> available;
    std::optional<int64_t> process_peak;  // since the process began
    std::optional<double> fragmentation;  // 0 to 1
    int64_t bytes = 0;                    // of the block
    std::string operation;                // for which it is; empty: not known
  };
  void Add(const Event& event);

  uint64_t allocations() const { return allocations_; }
  uint64_t deallocations() const { return deallocations_; }
  int64_t in_use() const { return last_.in_use; }  // at the end
  int64_t peak() const { return peak_; }           // while it was recorded
  std::optional<int64_t> reserved() const { return last_.reserved; }
  std::optional<int64_t> process_peak() const { return process_peak_; }
  std::optional<int64_t> limit() const;
  std::optional<double> fragmentation() const { return fragmentation_; }  // the largest
  int64_t largest() const { return largest_; }
  const std::string& largest_operation() const { return largest_operation_; }
  // Time and bytes in use, sorted by time.
  std::map<int64_t, int64_t> Points() const;

 private:
  struct Point {
    int64_t time_ns = 0;
    int64_t in_use = 0;
  };

  uint64_t allocations_ = 0;
  uint64_t deallocations_ = 0;
  Event last_{INT64_MIN, false, 0, {}, {}, {}, {}, 0, {}};
  int64_t peak_ = 0;
  std::optional<int64_t> process_peak_;
  std::optional<double> fragmentation_;
  int64_t largest_ = 0;
  std::string largest_operation_;
  int64_t part_ns_ = 1'000'000;
  std::map<int64_t, Point> points_;  // by part
};

// The allocators of a worker by their names, at most kMaxAllocators.
class AllocatorSamples {
 public:
  static constexpr size_t kMaxAllocators = 64;

  // `event` is a MemoryAllocation or a MemoryDeallocation; one that does not say how much is in use
  // is left out.
  void Add(const RawEvent& event, int64_t time_ns, bool is_allocation, const PlaneNames& names);
  const std::map<std::string, Allocator>& all() const { return allocators_; }

 private:
  std::map<std::string, Allocator> allocators_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_ALLOCATOR_SAMPLES_H_
