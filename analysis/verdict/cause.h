// SPDX-License-Identifier: Apache-2.0
//
// Names the cause of a finding: in which class the workers spend more time than the others, and
// with what.
#ifndef ANALYSIS_VERDICT_CAUSE_H_
#define ANALYSIS_VERDICT_CAUSE_H_

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "analysis/alignment/alignment.h"
#include "analysis/blame/blame.h"
#include "analysis/report/report.h"

namespace jobscope::analysis {

// Means per step in ms: of slow workers, or of one of the others, absent if they do not know the
// class, and of each of the others that knows it.
using MeanTimes = std::array<std::optional<double>, kStepClasses>;
using OtherTimes = std::array<std::vector<double>, kStepClasses>;

// The time that slow workers spend in a class beyond that of the others.
struct Excess {
  double ms = 0;
  std::optional<double> others_ms;  // the others' median; absent: not comparable
};

// Time of a class that a worker does not know is in its launches, host work or unexplained time. An
// excess that this may explain is none.
Excess ExcessIn(StepClass step_class, const MeanTimes& slow, const OtherTimes& others);

// Sets how long `workers` slept, if the class of `finding` may hide waits and sleep explains most
// of the time that it takes in `workers` beyond `others`.
void NameSleep(const std::vector<size_t>& workers, const std::vector<size_t>& others,
               const Report& report, Finding* finding);

// Sets what counters say to limit `workers` more than `others`, if that may be the cause of the
// class of `finding`: the clocks of their GPUs, the CPU quota of their cgroups.
void NameLimits(const std::vector<size_t>& workers, const std::vector<size_t>& others,
                const Report& report, Finding* finding);

// Sets class, its times and the names by where the slow workers spend more than the others: over
// the common steps, or in one of them. Time of a class that they do not know may be in several
// others: the excess of these is one, too, which the largest of them names.
void NameCause(const Alignment& alignment, const Report& report, const Straggler& straggler,
               Finding* finding);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_CAUSE_H_
