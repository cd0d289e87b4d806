// SPDX-License-Identifier: Apache-2.0
#include "analysis/report/class_view.h"

#include <algorithm>

#include "analysis/report/report.h"

namespace jobscope::analysis {

std::vector<ClassRow> ClassesOf(const Report& report) {
  double all_ms = 0;
  size_t with_steps = 0;
  for (const WorkerRow& row : report.workers) {
    all_ms += row.mean_ms.value_or(0);
    if (row.mean_ms.has_value()) ++with_steps;
  }
  std::vector<ClassRow> rows;
  for (size_t c = 0; c < kStepClasses && with_steps > 0; ++c) {
    ClassRow of_class;
    of_class.step_class = static_cast<StepClass>(c);
    double sum_ms = 0;
    bool recorded = false;
    for (size_t w = 0; w < report.workers.size(); ++w) {
      const std::optional<double>& ms = report.workers[w].classes_ms[c];
      if (!ms.has_value()) continue;
      sum_ms += *ms;
      of_class.least_ms = recorded ? std::min(of_class.least_ms, *ms) : *ms;
      if (!recorded || *ms > of_class.most_ms) {
        of_class.most_ms = *ms;
        of_class.most_in = w;
      }
      recorded = true;
    }
    if (!recorded) continue;
    of_class.mean_ms = sum_ms / static_cast<double>(with_steps);
    of_class.share = all_ms > 0 ? sum_ms / all_ms : 0;
    rows.push_back(of_class);
  }
  return rows;
}

}  // namespace jobscope::analysis
