// SPDX-License-Identifier: Apache-2.0
//
// Finds whom the others wait for most, step by step. Pure arithmetic.
#ifndef ANALYSIS_BLAME_LATEST_H_
#define ANALYSIS_BLAME_LATEST_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "analysis/blame/own_times.h"

namespace jobscope::analysis {

// Per step: the worker with the largest own time, and by how much it exceeds the next one.
struct Delays {
  std::vector<double> delay_ns;
  std::vector<size_t> worker;
};

// Requires at least one worker.
Delays DelaysOf(const OwnTimes& times);

// A worker, or all of a node, whom the others wait for most, step by step.
struct Latest {
  std::vector<size_t> workers;
  std::string node;          // set if it is a node
  double delay_ns = 0;       // sum over steps of the time by which it is behind all others
  size_t late_steps = 0;     // in which they are last, by far more than the last one is on average
  bool significant = false;  // workers of equal speed would rarely be last in so many steps
};

// Returns who causes more than half of the time by which the last one is behind all others: a
// worker, or a node if that is significant.
std::optional<Latest> FindLatest(const OwnTimes& times);

// Returns how long a worker waits, on average, for the one with the largest own time of each step:
// summed over steps, if all wait only at the step's end. Waits within a step are longer.
double MeanWaitNs(const OwnTimes& times);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_BLAME_LATEST_H_
