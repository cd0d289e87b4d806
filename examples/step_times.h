// SPDX-License-Identifier: Apache-2.0
//
// Records the durations of the steps of a long run in constant memory.
#ifndef EXAMPLES_STEP_TIMES_H_
#define EXAMPLES_STEP_TIMES_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace jobscope::example {

// Records step durations in a histogram with buckets 0.5 % wide, from 1 us to 100 s; the longest
// step is exact. Not thread-safe.
class StepTimes {
 public:
  void Add(double milliseconds) {
    ++count_;
    longest_ms_ = std::max(longest_ms_, milliseconds);
    const double bucket = std::log(std::max(milliseconds, kSmallestMs) / kSmallestMs) / kLogWidth;
    ++buckets_[std::min(static_cast<size_t>(bucket), buckets_.size() - 1)];
  }

  uint64_t count() const { return count_; }
  double longest_ms() const { return longest_ms_; }

  // Returns the middle of the bucket that contains the median; 0 without steps.
  double median_ms() const {
    uint64_t below = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      below += buckets_[i];
      if (below * 2 > count_) {
        const double middle = kSmallestMs * std::exp((static_cast<double>(i) + 0.5) * kLogWidth);
        return std::min(middle, longest_ms_);
      }
    }
    return 0.0;
  }

 private:
  static constexpr double kSmallestMs = 1e-3;
  static constexpr double kLogWidth = 0.005;
  std::array<uint64_t, 3700> buckets_{};  // ln(100 s / 1 us) / 0.005 = 3,684
  uint64_t count_ = 0;
  double longest_ms_ = 0.0;
};

}  // namespace jobscope::example

#endif  // EXAMPLES_STEP_TIMES_H_
