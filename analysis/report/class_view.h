// SPDX-License-Identifier: Apache-2.0
//
// Sums the classes of time over all workers.
#ifndef ANALYSIS_REPORT_CLASS_VIEW_H_
#define ANALYSIS_REPORT_CLASS_VIEW_H_

#include <cstddef>
#include <vector>

#include "analysis/steps/step_class.h"

namespace jobscope::analysis {

struct Report;

struct ClassRow {
  StepClass step_class = StepClass::kInput;
  double mean_ms = 0;   // per step, over all workers with steps
  double share = 0;     // of the time of all steps
  double least_ms = 0;  // of the workers that record it
  double most_ms = 0;
  size_t most_in = 0;  // index into Report::workers
};

// Returns the classes that some worker recorded, in the order of StepClass.
std::vector<ClassRow> ClassesOf(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_REPORT_CLASS_VIEW_H_
