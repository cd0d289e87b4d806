// SPDX-License-Identifier: Apache-2.0
//
// Makes own times for tests.
#ifndef TESTS_ANALYSIS_BLAME_MADE_TIMES_H_
#define TESTS_ANALYSIS_BLAME_MADE_TIMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "analysis/blame/blame.h"
#include "analysis/blame/own_times.h"

namespace jobscope::analysis {

// Ranks whose own time is 100 ms with some noise; 20 ms of transfer.
inline OwnTimes Equal(size_t workers, size_t steps, double noise_ms = 2, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, noise_ms * 1e6);
  OwnTimes times;
  times.transfer_ns.assign(steps, 20e6);
  for (size_t w = 0; w < workers; ++w) {
    std::vector<double> own;
    for (size_t s = 0; s < steps; ++s) own.push_back(100e6 + noise(random));
    times.own_ns.push_back(std::move(own));
    times.nodes.push_back("node" + std::to_string(w / 4));
  }
  return times;
}

// Steps that take what the model says.
inline OwnTimes Measured(OwnTimes times) {
  times.step_ns = times.transfer_ns;
  for (size_t s = 0; s < times.step_ns.size(); ++s) {
    double largest = 0;
    for (const std::vector<double>& own : times.own_ns) largest = std::max(largest, own[s]);
    times.step_ns[s] += largest;
  }
  return times;
}

inline std::vector<Straggler> FindStragglers(const OwnTimes& times) {
  return FindStragglers(times, times);
}

inline void Slow(OwnTimes* times, size_t worker, double ms, size_t every = 1) {
  for (size_t s = 0; s < times->transfer_ns.size(); s += every) {
    times->own_ns[worker][s] += ms * 1e6;
  }
}

}  // namespace jobscope::analysis

#endif  // TESTS_ANALYSIS_BLAME_MADE_TIMES_H_
