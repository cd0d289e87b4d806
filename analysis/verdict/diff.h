// SPDX-License-Identifier: Apache-2.0
//
// Compares two runs of one program: whether the second is slower, and where.
#ifndef ANALYSIS_VERDICT_DIFF_H_
#define ANALYSIS_VERDICT_DIFF_H_

#include <optional>
#include <string>
#include <vector>

#include "analysis/report/report.h"

namespace jobscope::analysis {

struct Difference {
  std::string name;
  // Per step. Absent: that run does not know it; what it knows not to have happened is 0.
  std::optional<double> before_ms;
  std::optional<double> after_ms;
  // 95 % interval of the change of a class, over steps. Absent: too few steps, or one of the runs
  // does not know the class. Names have none: digests hold only their sums over all steps.
  std::optional<double> low_ms = std::nullopt;
  std::optional<double> high_ms = std::nullopt;
  // Set if the time is absent because digests left the name out: it is no larger.
  std::optional<double> before_at_most_ms = std::nullopt;
  std::optional<double> after_at_most_ms = std::nullopt;
  std::optional<double> delta_ms() const;
  // Returns how much the times differ at least; nullopt: not known.
  std::optional<double> least_change_ms() const;
};

struct RunDiff {
  enum class Outcome {
    kNeutral,
    kRegression,
    kImprovement,
    kInconclusive
  } outcome = Outcome::kInconclusive;
  std::optional<double> before_ms;  // per step; absent: the run has no steps
  std::optional<double> after_ms;
  std::optional<double> change;  // after / before - 1
  // Its 95 % interval; absent: too few steps.
  std::optional<double> change_low;
  std::optional<double> change_high;
  // Means of the samples of StepTimesOf, which add up to the step times. `name` is that of the
  // class. First those that surely changed (their interval excludes 0) by a tenth of the largest
  // change or more, then the others that both runs know, each by size of the change. Waiting for
  // others is last of these where ranks run in step: another class causes it.
  std::vector<Difference> classes;
  // Scopes, operators, kernels: at most 20, largest change first (the least that it can be, if
  // digests left the name out), then those that only one run knows.
  std::vector<Difference> names;
  std::string why_inconclusive;  // for example, too few steps
  // What is missing in one of the runs, or doubtful.
  std::vector<std::string> warnings;
};

// Returns the step times of a run in ms, one sample per step of all workers together: what delays
// one of them often delays the others as well, so each worker's steps are no samples of their own.
// A sample is the mean of the workers' accounts of a common step. If workers do not wait for each
// other, the steps of each are divided into as many even parts as the worker with the fewest has
// steps.
std::vector<double> StepTimesOf(const Report& report);

// Decides by bootstrap over steps whether the change of the mean from `before` to `after` is real
// and at least `gate` (0.05: 5 %). Fills outcome, times and change. Pure function.
RunDiff CompareSteps(const std::vector<double>& before, const std::vector<double>& after,
                     double gate);

RunDiff DiffRuns(const Report& before, const Report& after, double gate);

// Returns why these are not runs of one program on the same number of workers; empty: they are.
std::string WhyUnlike(const Report& before, const Report& after);

const char* OutcomeName(RunDiff::Outcome outcome);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_DIFF_H_
