// SPDX-License-Identifier: Apache-2.0
//
// Sums what several workers spend in each class, and what is unknown of it.
#ifndef ANALYSIS_VERDICT_COMMON_TIMES_H_
#define ANALYSIS_VERDICT_COMMON_TIMES_H_

#include <array>
#include <cstddef>
#include <map>
#include <vector>

#include "analysis/blame/bounds.h"
#include "analysis/report/report.h"

namespace jobscope::analysis {

// Returns whether the workers are compared step by step.
bool AreInStep(const Alignment& alignment);

// The times of several workers, over the steps that they have in common.
struct CommonTimes {
  // Of each worker, in ms per step.
  std::vector<double> steps;
  std::array<std::vector<double>, kStepClasses> classes;
  std::array<bool, kStepClasses> recorded = {};
  // Of each sample, over all workers. A sample is a step of all workers: ranks that wait for each
  // other are no independent samples. Of others the one with the fewest steps divides the time into
  // as many parts, and each worker weighs the same, as in the means.
  std::vector<double> all;
  std::array<std::vector<double>, kStepClasses> in_class;
  // The steps of each worker that count, which these times are of.
  std::map<size_t, std::vector<size_t>> counted;
};

CommonTimes TimesOf(const std::vector<size_t>& workers, const Report& report);

// Returns the share of each class that is recorded, over all workers, and at most what more than
// half of them have.
Shares SharesOf(const CommonTimes& times);

// Returns whether most of the transfer lies in collectives of which not all members are known.
bool TransferIsUnsure(const std::vector<size_t>& workers, const Report& report);

// Returns how many workers of the run are not compared: without steps nothing is known of a worker,
// nor whether it takes part in the collectives.
size_t UnknownWorkers(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_COMMON_TIMES_H_
