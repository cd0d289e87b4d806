// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/clock_map.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace jobscope::cuda {
namespace {

// Bracketed readings per knot. One costs 27 ns; the narrowest of these was rarely interrupted.
constexpr int kTries = 16;
// Largest relative difference to REALTIME's rate between two knots that counts as slewing (the
// kernel slews by at most 500 ppm), not as a step. Knots are about 0.1 s apart, their brackets 0.1
// us wide.
constexpr double kMaxSlew = 0.0015;
// Minimum distance of two knots for a usable rate.
constexpr uint64_t kMinKnotDistanceNs = 10'000'000;
// Bounds the knots: hours at ten per second, longer than any record is held. Beyond it the oldest
// half is dropped.
constexpr size_t kMaxKnots = 65'536;

}  // namespace

ClockMap::ClockMap(Read cupti_ns, Read ticks, double ticks_per_second)
    : cupti_ns_(std::move(cupti_ns)),
      ticks_(std::move(ticks)),
      ticks_per_ns_(ticks_per_second * 1e-9) {}

void ClockMap::AddKnot() {
  uint64_t best_bracket = UINT64_MAX;
  Knot knot;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = ticks_();
    const uint64_t ns = cupti_ns_();
    const uint64_t after = ticks_();
    if (ns == 0 || after < before || after - before >= best_bracket) continue;
    best_bracket = after - before;
    knot.ns = ns;
    knot.ticks = before + best_bracket / 2;
  }
  if (best_bracket == UINT64_MAX) return;
  max_bracket_ticks_ = std::max(max_bracket_ticks_, static_cast<double>(best_bracket));
  knot.ticks_per_ns = ticks_per_ns_;
  if (!knots_.empty()) {
    Knot& last = knots_.back();
    // Subtracts integers: a double of ns since 1970 has a grain of 256. Negative after a step back.
    const double ns = static_cast<double>(static_cast<int64_t>(knot.ns - last.ns));
    const double ticks = static_cast<double>(knot.ticks - last.ticks);
    if (ticks <= static_cast<double>(kMinKnotDistanceNs) * ticks_per_ns_) return;
    const double slack = 2 * max_bracket_ticks_;
    if (std::abs(ns * ticks_per_ns_ - ticks) > ticks * kMaxSlew + slack) {
      ++steps_;
    } else {
      last.ticks_per_ns = ticks / ns;
      knot.ticks_per_ns = last.ticks_per_ns;
    }
  }
  if (knots_.size() >= kMaxKnots) knots_.erase(knots_.begin(), knots_.begin() + kMaxKnots / 2);
  knots_.push_back(knot);
}

uint64_t ClockMap::ToTicks(uint64_t cupti_ns) const {
  if (knots_.empty()) return 0;
  // Searches from the end, because records are at most seconds old. After a step back a time is in
  // two pieces; the later one is the better guess.
  auto found = knots_.end() - 1;
  while (found != knots_.begin() && found->ns > cupti_ns) --found;
  const Knot& knot = *found;
  const double delta = cupti_ns >= knot.ns ? static_cast<double>(cupti_ns - knot.ns)
                                           : -static_cast<double>(knot.ns - cupti_ns);
  const double ticks = static_cast<double>(knot.ticks) + delta * knot.ticks_per_ns;
  if (ticks <= 0) return 0;
  // Adds integers: a double of ticks since boot loses their last bits.
  const double moved = std::round(delta * knot.ticks_per_ns);
  if (std::abs(moved) > 9e18) return moved < 0 ? 0 : UINT64_MAX / 2;
  return knot.ticks + static_cast<uint64_t>(static_cast<int64_t>(moved));
}

}  // namespace jobscope::cuda
