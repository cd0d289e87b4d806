// SPDX-License-Identifier: Apache-2.0
#include "analysis/report/worker_row.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/statistics/statistics.h"

namespace jobscope::analysis {

void SetFigures(WorkerRow* row) {
  const WorkerView& view = row->view;
  if (view.steps.empty()) return;
  std::vector<double> times;
  double gap = 0;
  double blocked = 0;
  for (size_t s = 0; s < view.steps.size(); ++s) {
    times.push_back(static_cast<double>(view.steps[s].account_ns) / kNsPerMs);
    gap += static_cast<double>(view.steps[s].gap_ns());
    if (!view.blocked_ns.empty()) blocked += static_cast<double>(view.blocked_ns[s]);
  }
  const auto count = static_cast<double>(view.steps.size());
  row->p50_ms = Quantile(times, 0.5);
  row->p90_ms = Quantile(times, 0.9);
  row->p99_ms = Quantile(times, 0.99);
  row->longest_ms = *std::max_element(times.begin(), times.end());
  row->mean_ms = Mean(times);
  row->gap_ms = gap / count / kNsPerMs;
  row->own_ms = *row->mean_ms - blocked / count / kNsPerMs;
  if (!view.asleep_ns.empty()) {
    double sum = 0;
    for (const int64_t ns : view.asleep_ns) sum += static_cast<double>(ns);
    row->asleep_ms = sum / static_cast<double>(view.asleep_ns.size()) / kNsPerMs;
  }
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (view.class_ns[c].empty()) continue;
    double sum = 0;
    for (const int64_t ns : view.class_ns[c]) sum += static_cast<double>(ns);
    row->classes_ms[c] = sum / count / kNsPerMs;
  }
}

std::string TitleOf(const WorkerRow& worker) {
  const v1::Digest& digest = *worker.view.digest;
  if (!digest.has_rank()) return digest.name();
  std::vector<std::string> where;
  if (!digest.host().empty()) where.push_back(digest.host());
  if (worker.shares_rank) where.push_back(digest.name());
  const std::string rank = absl::StrCat("rank ", digest.rank());
  return where.empty() ? rank : absl::StrCat(rank, " (", absl::StrJoin(where, ", "), ")");
}

std::map<std::string, uint64_t> LossesOf(const WorkerRow& worker) {
  std::map<std::string, uint64_t> losses;
  for (const auto& loss : worker.view.digest->lost_by_cause()) losses[loss.first] = loss.second;
  return losses;
}

}  // namespace jobscope::analysis
