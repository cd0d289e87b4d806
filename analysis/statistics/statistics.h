// SPDX-License-Identifier: Apache-2.0
//
// Computes medians and bootstrap intervals. Pure functions with the same result on every machine.
#ifndef ANALYSIS_STATISTICS_STATISTICS_H_
#define ANALYSIS_STATISTICS_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace jobscope::analysis {

// Both return 0 for no values.
double Mean(const std::vector<double>& values);
// Returns the means of `parts` even parts of the values, in order; `parts` is at most their number.
std::vector<double> MeansOfParts(const std::vector<double>& values, size_t parts);
double Median(std::vector<double> values);
// Returns the median of the distances from `center`, times 1.4826: the standard deviation for
// normal values.
double ScaledMad(const std::vector<double>& values, double center);
// Returns the value at `fraction` (0 to 1) of the sorted values, by nearest rank.
double Quantile(std::vector<double> values, double fraction);

struct Range {
  double low = 0;
  double high = 0;
};

// Returns the 95 % interval of sum(numerator) / sum(denominator): both are resampled together,
// `kResamples` times, with replacement. Deterministic. {0, 0} for no values.
inline constexpr int kResamples = 1000;
Range BootstrapRatio(const std::vector<double>& numerator, const std::vector<double>& denominator);

// Returns the 95 % interval of `change(mean of before, mean of after)`. The draws depend only on
// how many values there are: several quantities of the same steps share them. {0, 0} if one of
// the two is empty.
Range BootstrapChange(const std::vector<double>& before, const std::vector<double>& after,
                      double (*change)(double before, double after));

// Generates uniform pseudo-random numbers; a fixed algorithm, because output must be reproducible.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Returns a uniform number in [0, limit), with limit > 0 and below 2^32.
  uint64_t Below(uint64_t limit) { return ((Next() >> 32) * limit) >> 32; }

 private:
  uint64_t state_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_STATISTICS_STATISTICS_H_
