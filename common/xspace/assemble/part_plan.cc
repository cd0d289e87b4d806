// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/part_plan.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "common/xspace/segment/event_reader.h"
#include "common/xspace/wire/wire.h"

namespace jobscope::xspace {
namespace {

// Buckets per histogram. An overfull bucket is split by a histogram of its own, so the number
// affects only speed; 2^56 ps take at most seven levels.
constexpr size_t kBuckets = 256;
// A bucket below this share of the budget is not split further; the unused space of a part is less
// than that.
constexpr uint64_t kSplitShare = 32;

class Planner {
 public:
  Planner(const std::vector<IndexedPlane>& planes, uint64_t first_budget, uint64_t budget,
          ReadMeter* meter)
      : planes_(planes), current_budget_(first_budget), budget_(budget), meter_(meter) {}

  // Places the events that start in [begin, begin + width), in order of time.
  void Place(uint64_t begin, uint64_t width) {
    const uint64_t bucket_width = (width - 1) / kBuckets + 1;
    std::array<uint64_t, kBuckets> bytes{};
    for (const IndexedPlane& plane : planes_) {
      for (const IndexedLine& line : plane.lines) {
        for (const Segment& segment : line.segments) {
          Count(segment, begin, width, bucket_width, &bytes);
        }
      }
    }
    for (size_t i = 0; i < kBuckets; ++i) {
      if (bytes[i] == 0) continue;
      const uint64_t bucket_begin = begin + i * bucket_width;
      if (used_ + bytes[i] <= current_budget_) {
        used_ += bytes[i];
      } else if (bucket_width > 1 && bytes[i] > budget_ / kSplitShare) {
        Place(bucket_begin, std::min(bucket_width, begin + width - bucket_begin));
      } else {
        // A first part with less space than the others may hold no events at all.
        if (used_ != 0 || (cuts_.empty() && current_budget_ < budget_)) {
          cuts_.push_back(static_cast<int64_t>(bucket_begin));
          current_budget_ = budget_;
        }
        used_ = bytes[i];
      }
    }
  }

  std::vector<int64_t> TakeCuts() { return std::move(cuts_); }

 private:
  void Count(const Segment& segment, uint64_t begin, uint64_t width, uint64_t bucket_width,
             std::array<uint64_t, kBuckets>* bytes) {
    const uint64_t first = FromSpread(segment.first.start);
    const uint64_t last = FromSpread(segment.last.start);
    if (last < begin || first >= begin + width) return;
    if (first >= begin && (first - begin) / bucket_width == (last - begin) / bucket_width) {
      (*bytes)[(first - begin) / bucket_width] += segment.events.size();
      return;
    }
    AddRead(meter_, segment.events);
    const char* at = segment.events.data();
    const char* const end = at + segment.events.size();
    while (at != end) {
      Spread spread;
      const char* const next = ReadStart(at, end, &spread);
      const uint64_t start = FromSpread(spread);
      if (start >= begin + width) return;
      if (start >= begin) {
        (*bytes)[(start - begin) / bucket_width] += static_cast<uint64_t>(next - at);
      }
      at = next;
    }
  }

  const std::vector<IndexedPlane>& planes_;
  uint64_t current_budget_;
  const uint64_t budget_;
  ReadMeter* const meter_;
  uint64_t used_ = 0;  // by the current part
  std::vector<int64_t> cuts_;
};

}  // namespace

std::vector<int64_t> PlanCuts(const std::vector<IndexedPlane>& planes, uint64_t first_budget_bytes,
                              uint64_t budget_bytes, ReadMeter* meter) {
  uint64_t total = 0;
  uint64_t first = std::numeric_limits<uint64_t>::max();
  uint64_t last = 0;
  for (const IndexedPlane& plane : planes) {
    for (const IndexedLine& line : plane.lines) {
      for (const Segment& segment : line.segments) {
        total += segment.events.size();
        first = std::min(first, FromSpread(segment.first.start));
        last = std::max(last, FromSpread(segment.last.start));
      }
    }
  }
  if (total <= first_budget_bytes) return {};
  Planner planner(planes, first_budget_bytes, budget_bytes, meter);
  planner.Place(first, last - first + 1);
  return planner.TakeCuts();
}

}  // namespace jobscope::xspace
