// SPDX-License-Identifier: Apache-2.0
//
// Computes medians and bootstrap intervals. Pure functions with the same result on every machine.
#ifndef ANALYSIS_VERDICT_STATISTICS_H_
#define ANALYSIS_VERDICT_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace jobscope::analysis {

// 0 for no values.
double Mean(const std::vector<double>& values);
double Median(std::vector<double> values);
// Median of the distances from `center`, times 1.4826: the standard deviation of normal values.
double ScaledMad(const std::vector<double>& values, double center);
// The value at `fraction` (0 to 1) of the sorted values, by nearest rank.
double Quantile(std::vector<double> values, double fraction);

struct Range {
  double low = 0;
  double high = 0;
};

// Interval of 95 % for sum(numerator) / sum(denominator): both drawn together, `kResamples` times,
// with replacement. Deterministic. {0, 0} for no values.
inline constexpr int kResamples = 1000;
Range BootstrapRatio(const std::vector<double>& numerator, const std::vector<double>& denominator);

// A small generator of even numbers: its sequence is part of the output's reproducibility.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Even in [0, limit), limit > 0 and below 2^32.
  uint64_t Below(uint64_t limit) { return ((Next() >> 32) * limit) >> 32; }

 private:
  uint64_t state_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_STATISTICS_H_
