// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/run_clocks.h"

#include <utility>
#include <vector>

#include "client/clock/clock_groups.h"
#include "common/clock/clock_id.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// How many workers of one clock receive pings; a second and a third compensate for a slow path.
constexpr int kPingedPerClock = 3;

}  // namespace

// A few of the workers that read one clock suffice to measure it; our own needs none. The result of
// arming is checked in any case: ids are hints.
bool RunClocks::NeedsPings(const Slot& slot) {
  if (!slot.arm_clock.has_value() || slot.clock_id.empty()) return true;
  if (slot.clock_id == ClockId()) return !MayBeOurs(*slot.arm_clock);
  return ++pinged_[slot.clock_id] <= kPingedPerClock;
}

// Workers of one host narrow each other's measurements.
void RunClocks::Combine(Roster* roster) {
  std::vector<MeasuredClock> clocks;
  clocks.reserve(roster->size());
  for (size_t i = 0; i < roster->size(); ++i) {
    clocks.push_back({(*roster)[i].clock_id, (*roster)[i].clock});
  }
  const std::string& own = ClockId();
  CombineClocks(own, &clocks);
  const uint64_t now_ns = MonotonicNow();
  for (size_t i = 0; i < roster->size(); ++i) {
    std::optional<ClockEstimate>& clock = (*roster)[i].clock;
    clock = clocks[i].estimate;
    // Our own clock does not drift from us.
    if (clock.has_value() && (*roster)[i].clock_id == own && !own.empty() &&
        clock->offset_ns == 0) {
      clock->measured_ns = now_ns;
    }
    if (!clock.has_value() || (*roster)[i].clock_id.empty()) continue;
    const auto [known, is_new] = combined_.emplace((*roster)[i].clock_id, *clock);
    if (!is_new && clock->uncertainty_ns < known->second.uncertainty_ns) known->second = *clock;
  }
}

// Uses the group's combined estimate, not all of its members: many workers may be late.
void RunClocks::CombineLate(Slot* slot) const {
  if (!slot->clock.has_value()) return;
  std::vector<MeasuredClock> clocks = {{slot->clock_id, slot->clock}};
  const auto known = combined_.find(slot->clock_id);
  if (known != combined_.end()) clocks.push_back({known->first, known->second});
  CombineClocks(ClockId(), &clocks);
  slot->clock = clocks[0].estimate;
}

}  // namespace jobscope
