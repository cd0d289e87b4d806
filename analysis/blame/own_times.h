// SPDX-License-Identifier: Apache-2.0
//
// Defines the times from which the blame is computed.
#ifndef ANALYSIS_BLAME_OWN_TIMES_H_
#define ANALYSIS_BLAME_OWN_TIMES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace jobscope::analysis {

struct OwnTimes {
  std::vector<std::vector<double>> own_ns;  // [worker][common step]
  // [common step]: collectives that all members had entered.
  std::vector<double> transfer_ns;
  // [common step]: as measured, the mean account of the workers. The longest one counts a delay
  // twice if there is no collective in the step: the others wait for it in a later step.
  std::vector<double> step_ns;
  std::vector<std::string> nodes;       // [worker]; empty: unknown
  std::vector<std::string> gpu_models;  // likewise
};

// Returns each worker's mean own time over steps.
std::vector<double> MeanOwn(const OwnTimes& times);

// Returns whether `workers` are all of one node, or all with one GPU model, and there are others;
// false if the node, or the model, of some worker is not known.
bool IsNode(const OwnTimes& times, const std::vector<size_t>& workers);
bool IsGpuModel(const OwnTimes& times, const std::vector<size_t>& workers);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_BLAME_OWN_TIMES_H_
