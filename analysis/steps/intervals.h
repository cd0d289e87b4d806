// SPDX-License-Identifier: Apache-2.0
//
// Represents sets of times as sorted, disjoint, half-open intervals. Pure functions.
#ifndef ANALYSIS_STEPS_INTERVALS_H_
#define ANALYSIS_STEPS_INTERVALS_H_

#include <cstdint>
#include <vector>

namespace jobscope::analysis {

struct Interval {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t length_ns() const { return end_ns - begin_ns; }
  friend bool operator==(const Interval& a, const Interval& b) {
    return a.begin_ns == b.begin_ns && a.end_ns == b.end_ns;
  }
};

// Sorted by begin, disjoint, non-empty. All functions but Union require this of their arguments.
using Intervals = std::vector<Interval>;

// Returns the union of intervals in any order, which may overlap or be empty.
Intervals Union(Intervals any);
Intervals Union(const Intervals& a, const Intervals& b);
// Returns the part of `a` outside of `b`.
Intervals Subtract(const Intervals& a, const Intervals& b);
Intervals Intersect(const Intervals& a, const Intervals& b);
int64_t Length(const Intervals& intervals);

// Appends [begin_ns, end_ns) to `intervals`, merging it with the last one if they touch. Call it in
// the order of begins.
void Extend(Intervals* intervals, int64_t begin_ns, int64_t end_ns);

// Returns how much of each of `spans` (sorted by begin, disjoint) `intervals` cover.
std::vector<int64_t> CoverageOf(const std::vector<Interval>& spans, const Intervals& intervals);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_STEPS_INTERVALS_H_
