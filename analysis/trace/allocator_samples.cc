// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/allocator_samples.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/text/utf8.h"

namespace jobscope::analysis {
namespace {

constexpr size_t kMaxName = 128;

// Sums of bytes must not overflow, whatever a trace says.
constexpr int64_t kMaxBytes = int64_t{1} << 60;

}  // namespace

void Allocator::Add(const Event& event) {
  ++(event.is_allocation ? allocations_ : deallocations_);
  peak_ = std::max(peak_, event.in_use);
  if (event.process_peak.has_value()) {
    process_peak_ = std::max(process_peak_.value_or(0), *event.process_peak);
  }
  if (event.fragmentation.has_value()) {
    fragmentation_ = std::max(fragmentation_.value_or(0), *event.fragmentation);
  }
  if (event.is_allocation && event.bytes > largest_) {
    largest_ = event.bytes;
    largest_operation_ = event.operation;
  }
  if (event.time_ns >= last_.time_ns) last_ = event;
  const auto [point, added] =
      points_.emplace(event.time_ns / part_ns_, Point{event.time_ns, event.in_use});
  if (!added && event.in_use > point->second.in_use) point->second = {event.time_ns, event.in_use};
  while (points_.size() > kMaxPoints) {
    part_ns_ *= 2;
    std::map<int64_t, Point> merged;
    for (const auto& [part, known] : points_) {
      Point& target = merged.emplace(known.time_ns / part_ns_, known).first->second;
      if (known.in_use > target.in_use) target = known;
    }
    points_ = std::move(merged);
  }
}

std::optional<int64_t> Allocator::limit() const {
  if (last_.available.value_or(0) <= 0) return std::nullopt;
  return last_.in_use + last_.reserved.value_or(0) + *last_.available;
}

std::map<int64_t, int64_t> Allocator::Points() const {
  std::map<int64_t, int64_t> points;
  for (const auto& [part, point] : points_) points[point.time_ns] = point.in_use;
  return points;
}

void AllocatorSamples::Add(const RawEvent& event, int64_t time_ns, bool is_allocation,
                           const PlaneNames& names) {
  Allocator::Event report;
  report.time_ns = time_ns;
  report.is_allocation = is_allocation;
  std::string name;
  bool is_known = false;
  ForEachStat(event.message, xspace::xevent_field::kStats, [&](const Stat& stat) {
    const auto found = names.stats.find(stat.metadata_id);
    if (found == names.stats.end()) return;
    const std::string_view what = found->second;
    const bool is_bytes = stat.type == Stat::Type::kInteger && stat.integer >= 0;
    const int64_t bytes = is_bytes ? std::min(stat.integer, kMaxBytes) : 0;
    if (what == "allocator_name") {
      name = CleanUtf8(names.Text(stat), kMaxName);
    } else if (what == "tf_op") {
      report.operation = CleanUtf8(names.Text(stat), kMaxName);
    } else if (what == "fragmentation" && stat.type == Stat::Type::kDouble) {
      if (stat.number >= 0 && stat.number <= 1) report.fragmentation = stat.number;
    } else if (!is_bytes) {
      return;
    } else if (what == "bytes_allocated") {
      report.in_use = bytes;
      is_known = true;
    } else if (what == "bytes_reserved") {
      report.reserved = bytes;
    } else if (what == "bytes_available") {
      report.available = bytes;
    } else if (what == "peak_bytes_in_use") {
      report.process_peak = bytes;
    } else if (what == "allocation_bytes") {
      report.bytes = bytes;
    }
  });
  if (!is_known || name.empty()) return;
  auto allocator = allocators_.find(name);
  if (allocator == allocators_.end()) {
    if (allocators_.size() == kMaxAllocators) return;
    allocator = allocators_.emplace(std::move(name), Allocator()).first;
  }
  allocator->second.Add(report);
}

}  // namespace jobscope::analysis
