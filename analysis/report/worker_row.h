// SPDX-License-Identifier: Apache-2.0
//
// Defines one worker's row of the report.
#ifndef ANALYSIS_REPORT_WORKER_ROW_H_
#define ANALYSIS_REPORT_WORKER_ROW_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "analysis/alignment/worker_view.h"
#include "analysis/steps/step_class.h"

namespace jobscope::analysis {

struct WorkerRow {
  WorkerView view;
  bool shares_rank = false;  // another worker says that it has the same rank
  std::optional<double> p50_ms, p90_ms, p99_ms, longest_ms;
  std::optional<double> mean_ms, gap_ms, own_ms;
  // Means per step; absent: not recorded.
  std::array<std::optional<double>, kStepClasses> classes_ms;
  std::optional<double> asleep_ms;  // in host, launch and unexplained time
  int64_t unsure_ns = 0;            // transfer in collectives of which not all members are known
};

// Sets the figures of a row from its view.
void SetFigures(WorkerRow* row);

// Returns "rank 5 (node2)" or "127.0.0.1_6009"; "rank 5 (node2, w7)" if another worker has the same
// rank.
std::string TitleOf(const WorkerRow& worker);

// Returns how many events each cause of loss took (docs/trace_format.md has the causes), sorted by
// cause. Empty: none, or not known.
std::map<std::string, uint64_t> LossesOf(const WorkerRow& worker);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_REPORT_WORKER_ROW_H_
