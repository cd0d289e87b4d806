// SPDX-License-Identifier: Apache-2.0
#include "client/clock/clock_groups.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

namespace jobscope {
namespace {

// Largest error of one reading of the clock, also on one machine.
constexpr uint64_t kReadingNs = 1'000;

struct Interval {
  int64_t low = INT64_MIN;
  int64_t high = INT64_MAX;
  uint64_t measured_ns = 0;  // of the latest member
};

void SetOffset(int64_t offset_ns, uint64_t uncertainty_ns, uint64_t measured_ns,
               ClockEstimate* clock) {
  // Unsigned: a worker's REALTIME may have any value.
  clock->realtime_offset_ns =
      static_cast<int64_t>(static_cast<uint64_t>(clock->realtime_offset_ns) +
                           static_cast<uint64_t>(offset_ns - clock->offset_ns));
  clock->offset_ns = offset_ns;
  clock->uncertainty_ns = uncertainty_ns;
  clock->measured_ns = measured_ns;
}

}  // namespace

bool MayBeOurs(const ClockEstimate& clock) {
  const uint64_t distance = clock.offset_ns < 0 ? 0 - static_cast<uint64_t>(clock.offset_ns)
                                                : static_cast<uint64_t>(clock.offset_ns);
  return distance <= clock.uncertainty_ns + kReadingNs;
}

void CombineClocks(const std::string& own_clock_id, std::vector<MeasuredClock>* clocks) {
  std::map<std::string, std::vector<ClockEstimate*>> groups;
  for (MeasuredClock& clock : *clocks) {
    if (clock.estimate.has_value() && !clock.clock_id.empty()) {
      groups[clock.clock_id].push_back(&*clock.estimate);
    }
  }
  for (auto& [id, members] : groups) {
    if (id == own_clock_id) {
      for (ClockEstimate* member : members) {
        if (MayBeOurs(*member)) SetOffset(0, kReadingNs, member->measured_ns, member);
      }
      continue;
    }
    Interval common;
    for (const ClockEstimate* member : members) {
      common.measured_ns = std::max(common.measured_ns, member->measured_ns);
    }
    for (const ClockEstimate* member : members) {
      // The interval of an older measurement has widened by the time of the newest one.
      const auto half = static_cast<int64_t>(UncertaintyAt(*member, common.measured_ns));
      common.low = std::max(common.low, member->offset_ns - half);
      common.high = std::min(common.high, member->offset_ns + half);
    }
    if (common.low > common.high) continue;
    const int64_t offset = common.low + (common.high - common.low) / 2;
    const auto half = static_cast<uint64_t>(common.high - common.low + 1) / 2;
    for (ClockEstimate* member : members) {
      if (std::max(half, kReadingNs) >= UncertaintyAt(*member, common.measured_ns)) continue;
      SetOffset(offset, std::max(half, kReadingNs), common.measured_ns, member);
    }
  }
}

}  // namespace jobscope
