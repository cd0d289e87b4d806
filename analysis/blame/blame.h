// SPDX-License-Identifier: Apache-2.0
//
// Finds who delays the other workers, and what a fix would gain. Pure arithmetic on the times that
// each worker spent in each common step without waiting for others.
#ifndef ANALYSIS_BLAME_BLAME_H_
#define ANALYSIS_BLAME_BLAME_H_

#include <cstddef>
#include <string>
#include <vector>

#include "analysis/blame/own_times.h"

namespace jobscope::analysis {

// Workers that are slow together: one, all of a node or with one model of GPU, or several.
struct Straggler {
  std::vector<size_t> workers;
  std::string node;           // set if the finding is the node's
  std::string gpu_model;      // set if it is that of all workers with such a GPU
  double step_ns = 0;         // mean measured step
  double mended_step_ns = 0;  // the same with these workers' own times at the median of the others
  double gain = 0;            // 1 - mended / step
  double gain_low = 0;        // 95 % interval over steps
  double gain_high = 0;
  // The slowest own time plus transfer does not explain the step time, for example because workers
  // run one after another: `gain` is then an upper bound.
  bool at_most = false;
  // Mean excess of these workers' own times over the others' median, in its standard errors.
  double significance = 0;
  // If not 0: they are late in this many steps only, and in the others nobody is.
  size_t late_steps = 0;
  // A single step accounts for most of it.
  bool single = false;
  size_t step = 0;  // if `single`: its index
};

// Returns what fixing `workers` would gain: as much as the largest own time shrinks.
Straggler WorthOf(const OwnTimes& times, std::vector<size_t> workers);

// Returns the findings that pass the thresholds (thresholds.h), largest gain first. A single long
// step is last, regardless of its gain; it is one of the times as measured, from which `times` may
// lack what lies in a few steps.
std::vector<Straggler> FindStragglers(const OwnTimes& times, const OwnTimes& measured);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_BLAME_BLAME_H_
