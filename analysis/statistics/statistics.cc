// SPDX-License-Identifier: Apache-2.0
#include "analysis/statistics/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace jobscope::analysis {
namespace {

// Of a larger number, only every n-th sample is used: the interval is narrow enough.
constexpr size_t kMaxSamples = 5000;

std::vector<double> Thinned(const std::vector<double>& values) {
  const size_t stride = values.size() / kMaxSamples + 1;
  std::vector<double> thinned;
  for (size_t i = 0; i < values.size(); i += stride) thinned.push_back(values[i]);
  return thinned;
}

double SampleMean(const std::vector<double>& values, SplitMix64* random) {
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    sum += values[static_cast<size_t>(random->Below(values.size()))];
  }
  return sum / static_cast<double>(values.size());
}

}  // namespace

double Mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::vector<double> MeansOfParts(const std::vector<double>& values, size_t parts) {
  std::vector<double> means;
  means.reserve(parts);
  const size_t count = values.size();
  for (size_t p = 0; p < parts; ++p) {
    const auto at = [&](size_t part) {
      return values.begin() + static_cast<ptrdiff_t>(part * count / parts);
    };
    means.push_back(std::accumulate(at(p), at(p + 1), 0.0) /
                    static_cast<double>(at(p + 1) - at(p)));
  }
  return means;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

double ScaledMad(const std::vector<double>& values, double center) {
  std::vector<double> distances;
  distances.reserve(values.size());
  for (const double value : values) distances.push_back(std::fabs(value - center));
  constexpr double kNormal = 1.4826;
  return kNormal * Median(std::move(distances));
}

double Quantile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(fraction * static_cast<double>(values.size()));
  const auto at = values.begin() + static_cast<ptrdiff_t>(std::min(rank, values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

uint64_t SplitMix64::Next() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

Range BootstrapRatio(const std::vector<double>& numerator, const std::vector<double>& denominator) {
  const size_t count = numerator.size();
  if (count == 0 || denominator.size() != count) return {};
  SplitMix64 random(count);
  std::vector<double> ratios;
  ratios.reserve(kResamples);
  for (int i = 0; i < kResamples; ++i) {
    double above = 0;
    double below = 0;
    for (size_t k = 0; k < count; ++k) {
      const auto pick = static_cast<size_t>(random.Below(count));
      above += numerator[pick];
      below += denominator[pick];
    }
    ratios.push_back(below > 0 ? above / below : 0);
  }
  std::sort(ratios.begin(), ratios.end());
  constexpr double kTail = 0.025;
  const auto tail = static_cast<size_t>(kTail * kResamples);
  return {ratios[tail], ratios[kResamples - 1 - tail]};
}

Range BootstrapChange(const std::vector<double>& all_before, const std::vector<double>& all_after,
                      double (*change)(double before, double after)) {
  if (all_before.empty() || all_after.empty()) return {};
  const std::vector<double> before = Thinned(all_before);
  const std::vector<double> after = Thinned(all_after);
  SplitMix64 random(before.size() * 31 + after.size());
  std::vector<double> changes;
  changes.reserve(kResamples);
  for (int i = 0; i < kResamples; ++i) {
    const double mean_before = SampleMean(before, &random);
    changes.push_back(change(mean_before, SampleMean(after, &random)));
  }
  return {Quantile(changes, 0.025), Quantile(changes, 0.975)};
}

}  // namespace jobscope::analysis
