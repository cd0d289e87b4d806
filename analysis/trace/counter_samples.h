// SPDX-License-Identifier: Apache-2.0
//
// Holds numeric samples over time: memory, utilisation, the program's own counters.
#ifndef ANALYSIS_TRACE_COUNTER_SAMPLES_H_
#define ANALYSIS_TRACE_COUNTER_SAMPLES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/utf8.h"

namespace jobscope::analysis {

// Holds one counter: exact sums, and samples that are thinned evenly to a bounded number.
class Counter {
 public:
  static constexpr size_t kMaxSamples = 256;

  void Add(int64_t time_ns, double value) {
    minimum_ = count_ == 0 ? value : std::min(minimum_, value);
    maximum_ = count_ == 0 ? value : std::max(maximum_, value);
    sum_ += value;
    last_ = value;
    if (count_++ % stride_ != 0) return;
    if (samples_.size() == kMaxSamples) {
      for (size_t i = 0; 2 * i < samples_.size(); ++i) samples_[i] = samples_[2 * i];
      samples_.resize(samples_.size() / 2);
      stride_ *= 2;
      if ((count_ - 1) % stride_ != 0) return;
    }
    samples_.emplace_back(time_ns, value);
  }

  uint64_t count() const { return count_; }
  double minimum() const { return minimum_; }
  double maximum() const { return maximum_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double last() const { return last_; }
  const std::vector<std::pair<int64_t, double>>& samples() const { return samples_; }

 private:
  uint64_t count_ = 0;
  uint64_t stride_ = 1;
  double minimum_ = 0, maximum_ = 0, sum_ = 0, last_ = 0;
  std::vector<std::pair<int64_t, double>> samples_;
};

// Holds the counters of a worker by name, at most kMaxCounters.
class CounterSamples {
 public:
  static constexpr size_t kMaxCounters = 256;

  void Add(std::string_view name, int64_t time_ns, double value) {
    const std::string key = CleanUtf8(name, 256);
    auto counter = counters_.find(key);
    if (counter == counters_.end()) {
      if (counters_.size() >= kMaxCounters) return;
      counter = counters_.emplace(key, Counter()).first;
    }
    counter->second.Add(time_ns, value);
  }
  const std::map<std::string, Counter>& all() const { return counters_; }

 private:
  std::map<std::string, Counter> counters_;
};

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TRACE_COUNTER_SAMPLES_H_
