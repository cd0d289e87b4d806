// SPDX-License-Identifier: Apache-2.0
#include "analysis/steps/intervals.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace jobscope::analysis {

void Extend(Intervals* intervals, int64_t begin_ns, int64_t end_ns) {
  if (end_ns <= begin_ns) return;
  if (!intervals->empty() && begin_ns <= intervals->back().end_ns) {
    intervals->back().end_ns = std::max(intervals->back().end_ns, end_ns);
  } else {
    intervals->push_back({begin_ns, end_ns});
  }
}

Intervals Union(Intervals any) {
  const auto before = [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; };
  // The input consists of sorted runs, one per line of a device, often only one: merges them in
  // pairs.
  std::vector<Intervals::iterator> ends = {any.begin()};
  while (ends.back() != any.end()) {
    ends.push_back(std::is_sorted_until(ends.back(), any.end(), before));
  }
  while (ends.size() > 2) {
    size_t kept = 1;
    for (size_t i = 2; i < ends.size(); i += 2) {
      std::inplace_merge(ends[i - 2], ends[i - 1], ends[i], before);
      ends[kept++] = ends[i];
    }
    if (ends.size() % 2 == 0) ends[kept++] = ends.back();
    ends.resize(kept);
  }
  Intervals merged;
  for (const Interval& interval : any) Extend(&merged, interval.begin_ns, interval.end_ns);
  return merged;
}

Intervals Union(const Intervals& a, const Intervals& b) {
  Intervals merged;
  auto next_a = a.begin();
  auto next_b = b.begin();
  while (next_a != a.end() || next_b != b.end()) {
    const bool from_a =
        next_b == b.end() || (next_a != a.end() && next_a->begin_ns < next_b->begin_ns);
    const Interval& next = from_a ? *next_a++ : *next_b++;
    Extend(&merged, next.begin_ns, next.end_ns);
  }
  return merged;
}

Intervals Subtract(const Intervals& a, const Intervals& b) {
  Intervals rest;
  size_t next = 0;
  for (const Interval& interval : a) {
    int64_t begin = interval.begin_ns;
    while (next < b.size() && b[next].end_ns <= begin) ++next;
    for (size_t i = next; i < b.size() && b[i].begin_ns < interval.end_ns; ++i) {
      Extend(&rest, begin, std::min(b[i].begin_ns, interval.end_ns));
      begin = std::max(begin, b[i].end_ns);
    }
    Extend(&rest, begin, interval.end_ns);
  }
  return rest;
}

Intervals Intersect(const Intervals& a, const Intervals& b) {
  Intervals common;
  size_t i = 0;
  size_t j = 0;
  while (i < a.size() && j < b.size()) {
    const int64_t begin = std::max(a[i].begin_ns, b[j].begin_ns);
    const int64_t end = std::min(a[i].end_ns, b[j].end_ns);
    if (begin < end) common.push_back({begin, end});
    if (a[i].end_ns < b[j].end_ns) {
      ++i;
    } else {
      ++j;
    }
  }
  return common;
}

int64_t Length(const Intervals& intervals) {
  int64_t length = 0;
  for (const Interval& interval : intervals) length += interval.length_ns();
  return length;
}

std::vector<int64_t> CoverageOf(const std::vector<Interval>& spans, const Intervals& intervals) {
  std::vector<int64_t> covered(spans.size(), 0);
  size_t first = 0;
  for (size_t s = 0; s < spans.size(); ++s) {
    while (first < intervals.size() && intervals[first].end_ns <= spans[s].begin_ns) ++first;
    for (size_t i = first; i < intervals.size() && intervals[i].begin_ns < spans[s].end_ns; ++i) {
      covered[s] += std::min(intervals[i].end_ns, spans[s].end_ns) -
                    std::max(intervals[i].begin_ns, spans[s].begin_ns);
    }
  }
  return covered;
}

}  // namespace jobscope::analysis
