// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/clock_map.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace jobscope::cuda {
namespace {

// Bracketed readings per knot. One costs 27 ns; the narrowest of these was rarely interrupted.
constexpr int kTries = 16;
// Largest relative difference to the expected rate between two knots that counts as slewing (the
// kernel slews by at most 500 ppm), not as a step. Knots are about 0.1 s apart, their brackets 0.1
// us wide.
constexpr double kMaxSlew = 0.0015;
// The same where the rate is a guess.
constexpr double kMaxError = 0.02;
// Least distance of two readings for that guess, in ns and in brackets.
constexpr double kGuessNs = 20'000;
constexpr double kGuessBrackets = 200;
constexpr double kMaxGuessNs = 1'000'000;
// Minimum distance of two knots for a usable rate.
constexpr uint64_t kMinKnotDistanceNs = 10'000'000;
// Bounds the knots: hours at ten per second, longer than any record is held. Beyond it the oldest
// half is dropped.
constexpr size_t kMaxKnots = 65'536;

}  // namespace

ClockMap::ClockMap(Read cupti_time, Read ticks, double ticks_per_second)
    : cupti_time_(std::move(cupti_time)),
      ticks_(std::move(ticks)),
      ticks_per_ns_(ticks_per_second * 1e-9),
      rate_(ticks_per_ns_) {}

void ClockMap::SetRate(double ticks_per_second) {
  ticks_per_ns_ = ticks_per_second * 1e-9;
  if (source_ == Rate::kNanoseconds) rate_ = ticks_per_ns_;
}

ClockMap::Knot ClockMap::ReadBoth() {
  uint64_t best_bracket = UINT64_MAX;
  Knot knot;
  for (int i = 0; i < kTries; ++i) {
    const uint64_t before = ticks_();
    const uint64_t time = cupti_time_();
    const uint64_t after = ticks_();
    if (time == 0 || after < before || after - before >= best_bracket) continue;
    best_bracket = after - before;
    knot.time = time;
    knot.ticks = before + best_bracket / 2;
  }
  if (best_bracket != UINT64_MAX) {
    max_bracket_ticks_ = std::max(max_bracket_ticks_, static_cast<double>(best_bracket));
  }
  return knot;
}

void ClockMap::BeginPiece(Knot* first) {
  source_ = Rate::kNanoseconds;
  rate_ = first->rate = ticks_per_ns_;
  Knot next;
  do {
    next = ReadBoth();
    if (next.ticks <= first->ticks) return;  // no clock, or none that runs
  } while (static_cast<double>(next.ticks - first->ticks) <
           std::clamp(kGuessBrackets * max_bracket_ticks_, kGuessNs * ticks_per_ns_,
                      kMaxGuessNs * ticks_per_ns_));
  const double ticks = static_cast<double>(next.ticks - first->ticks);
  const double units = static_cast<double>(static_cast<int64_t>(next.time - first->time));
  if (units <= 0 || std::abs(ticks / units - ticks_per_ns_) <= ticks_per_ns_ * kMaxError) return;
  source_ = Rate::kGuessed;
  rate_ = first->rate = ticks / units;
}

void ClockMap::AddKnot() {
  Knot knot = ReadBoth();
  if (knot.ticks == 0) return;
  if (knots_.empty()) {
    BeginPiece(&knot);
  } else {
    Knot& last = knots_.back();
    // Subtracts integers: a double of ns since 1970 has a grain of 256. Negative after a step back.
    const double units = static_cast<double>(static_cast<int64_t>(knot.time - last.time));
    const double ticks = static_cast<double>(knot.ticks - last.ticks);
    if (ticks <= static_cast<double>(kMinKnotDistanceNs) * ticks_per_ns_) return;
    const double allowed =
        ticks * (source_ == Rate::kGuessed ? kMaxError : kMaxSlew) + 2 * max_bracket_ticks_;
    const bool was_wrong =
        source_ == Rate::kGuessed &&
        std::abs(units * ticks_per_ns_ - ticks) <= ticks * kMaxSlew + 2 * max_bracket_ticks_;
    if (was_wrong) {
      source_ = Rate::kNanoseconds;
      rate_ = ticks_per_ns_;
      knot.rate = last.rate = ticks / units;
    } else if (std::abs(units * rate_ - ticks) > allowed) {
      ++steps_;
      BeginPiece(&knot);
    } else {
      knot.rate = last.rate = ticks / units;
      if (source_ == Rate::kGuessed) {
        source_ = Rate::kMeasured;
        rate_ = last.rate;
      }
    }
  }
  if (knots_.size() >= kMaxKnots) knots_.erase(knots_.begin(), knots_.begin() + kMaxKnots / 2);
  knots_.push_back(knot);
}

uint64_t ClockMap::ToTicks(uint64_t cupti_time) const {
  if (knots_.empty()) return 0;
  // Searches from the end, because records are at most seconds old. After a step back a time is in
  // two pieces; the later one is the better guess.
  auto found = knots_.end() - 1;
  while (found != knots_.begin() && found->time > cupti_time) --found;
  const Knot& knot = *found;
  const double delta = cupti_time >= knot.time ? static_cast<double>(cupti_time - knot.time)
                                               : -static_cast<double>(knot.time - cupti_time);
  const double ticks = static_cast<double>(knot.ticks) + delta * knot.rate;
  if (ticks <= 0) return 0;
  // Adds integers: a double of ticks since boot loses their last bits.
  const double moved = std::round(delta * knot.rate);
  if (std::abs(moved) > 9e18) return moved < 0 ? 0 : UINT64_MAX / 2;
  return knot.ticks + static_cast<uint64_t>(static_cast<int64_t>(moved));
}

}  // namespace jobscope::cuda
