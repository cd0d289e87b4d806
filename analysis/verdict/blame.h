// SPDX-License-Identifier: Apache-2.0
//
// Finds who delays the other workers, and what a fix would gain. Pure arithmetic on the times that
// each worker spent in each common step without waiting for others.
#ifndef ANALYSIS_VERDICT_BLAME_H_
#define ANALYSIS_VERDICT_BLAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace jobscope::analysis {

struct OwnTimes {
  std::vector<std::vector<double>> own_ns;  // [worker][common step]
  std::vector<double> transfer_ns;          // [common step]: collectives that all had entered
  std::vector<std::string> nodes;           // [worker]; empty: not known
};

// Workers that are slow together: one, or all of a node, or several.
struct Straggler {
  std::vector<size_t> workers;
  std::string node;           // of a finding that is the node's
  double step_ns = 0;         // mean over steps: the slowest own time plus transfer
  double mended_step_ns = 0;  // with these workers' own times at the median of the others
  double gain = 0;            // 1 - mended / step
  double gain_low = 0;        // 95 % over steps
  double gain_high = 0;
  // Mean excess of these workers' own times over the others' median, in its standard errors.
  double significance = 0;
  // A single step makes up most of it.
  bool single = false;
  size_t step = 0;  // then: which one
};

// Means over steps per worker.
std::vector<double> MeanOwn(const OwnTimes& times);

// What mending `workers` would bring: T of a step is the largest own time plus transfer.
Straggler WorthOf(const OwnTimes& times, std::vector<size_t> workers);

// Largest gain first; only what passes the thresholds (thresholds.h). A single long step comes
// last, whatever it is worth.
std::vector<Straggler> FindStragglers(const OwnTimes& times);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_BLAME_H_
