// SPDX-License-Identifier: Apache-2.0
#include "analysis/digest/digest_counters.h"

#include <cstdint>

namespace jobscope::analysis {

void FillCounters(const CounterSamples& counters, v1::Digest* digest) {
  for (const auto& [name, counter] : counters.all()) {
    v1::DigestCounter* out = digest->add_counters();
    out->set_name(name);
    out->set_count(counter.count());
    out->set_minimum(counter.minimum());
    out->set_maximum(counter.maximum());
    out->set_mean(counter.mean());
    out->set_last(counter.last());
    int64_t before_ns = 0;
    for (const auto& [time_ns, value] : counter.samples()) {
      out->add_time_ns(time_ns - before_ns);
      before_ns = time_ns;
      out->add_value(value);
    }
  }
}

void FillAllocators(const AllocatorSamples& allocators, v1::Digest* digest) {
  const auto count = [](int64_t bytes) { return static_cast<uint64_t>(bytes); };
  for (const auto& [name, allocator] : allocators.all()) {
    v1::DigestAllocator* out = digest->add_allocators();
    out->set_name(name);
    out->set_allocations(allocator.allocations());
    out->set_deallocations(allocator.deallocations());
    out->set_in_use(count(allocator.in_use()));
    out->set_peak(count(allocator.peak()));
    if (allocator.process_peak()) out->set_process_peak(count(*allocator.process_peak()));
    if (allocator.reserved()) out->set_reserved(count(*allocator.reserved()));
    if (allocator.limit()) out->set_limit(count(*allocator.limit()));
    if (allocator.fragmentation()) out->set_fragmentation(*allocator.fragmentation());
    out->set_largest(count(allocator.largest()));
    out->set_largest_operation(allocator.largest_operation());
    int64_t before_ns = 0;
    for (const auto& [time_ns, in_use] : allocator.Points()) {
      out->add_time_ns(time_ns - before_ns);
      before_ns = time_ns;
      out->add_point(count(in_use));
    }
  }
}

}  // namespace jobscope::analysis
