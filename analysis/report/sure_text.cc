// SPDX-License-Identifier: Apache-2.0
#include "analysis/report/sure_text.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "analysis/steps/step_class.h"

namespace jobscope::analysis {

std::string SureText(const Report& report) {
  std::vector<std::string> parts;
  switch (report.alignment.by) {
    case Alignment::By::kNumber:
      parts.push_back(absl::StrCat(report.alignment.common(), " common steps by number"));
      break;
    case Alignment::By::kCollectives:
      parts.push_back(absl::StrCat(report.alignment.common(), " common steps by collectives"));
      break;
    case Alignment::By::kNone:
      parts.emplace_back("no steps in common");
      break;
  }
  if (report.workers.size() == 1) {
    parts = {absl::StrCat(report.workers.front().view.steps.size(), " steps")};
  }
  uint64_t lost = 0;
  size_t lost_unknown = 0;
  size_t clocks_unknown = 0;
  double clock_ms = 0;
  for (const WorkerRow& row : report.workers) {
    const v1::Digest& digest = *row.view.digest;
    if (digest.has_lost()) {
      lost += digest.lost();
    } else {
      ++lost_unknown;
    }
    if (digest.aligned() && digest.has_clock_uncertainty_ns()) {
      clock_ms = std::max(clock_ms, static_cast<double>(digest.clock_uncertainty_ns()) / kNsPerMs);
    } else {
      ++clocks_unknown;
    }
  }
  if (report.workers.size() > 1) {
    parts.push_back(clocks_unknown == 0 ? absl::StrFormat("clocks +-%.3g ms", clock_ms)
                                        : std::string("clocks not compared"));
  }
  if (!report.workers.empty()) {
    parts.push_back(lost_unknown == 0 ? absl::StrCat(lost, " events lost")
                                      : std::string("losses not known"));
  }
  parts.push_back(absl::StrCat(report.workers.size(), " of ", report.expected_workers,
                               report.expected_workers == 1 ? " worker" : " workers"));
  if (!report.missing.empty()) {
    parts.back() +=
        absl::StrCat(" (", report.missing.front().worker, ": ", report.missing.front().reason,
                     report.missing.size() > 1 ? ", ..." : "", ")");
  }
  if (!report.warnings.empty()) {
    parts.push_back(absl::StrCat(report.warnings.size(),
                                 report.warnings.size() == 1 ? " warning" : " warnings"));
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace jobscope::analysis
