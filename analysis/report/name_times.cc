// SPDX-License-Identifier: Apache-2.0
#include "analysis/report/name_times.h"

#include <cstddef>

#include "analysis/digest/digest_names.h"
#include "analysis/report/report.h"
#include "analysis/statistics/thresholds.h"

namespace jobscope::analysis {
namespace {

double TimeIn(const std::map<std::string, double>& times, const std::string& name) {
  const auto found = times.find(name);
  return found != times.end() ? found->second : 0;
}

}  // namespace

NameTimes::NameTimes(const Report& report, bool kernels) {
  size_t workers = 0;
  for (const WorkerRow& row : report.workers) workers += row.mean_ms.has_value() ? 1 : 0;
  for (const WorkerRow& row : report.workers) {
    if (row.view.steps.empty()) continue;
    const double unit =
        static_cast<double>(row.view.steps.size()) * static_cast<double>(workers) * kNsPerMs;
    const v1::Digest& digest = *row.view.digest;
    const double left_out_ms = static_cast<double>(LargestLeftOutNs(digest, kernels)) / unit;
    left_out_ms_ += left_out_ms;
    for (const v1::DigestName& name : kernels ? digest.kernels() : digest.operators()) {
      if (left_out_ms > 0) not_left_out_ms_[name.name()] += left_out_ms;
      if (name.step_self_ns() == 0) continue;
      recorded_ms_[name.name()] += static_cast<double>(name.step_self_ns()) / unit;
    }
  }
}

NameTime NameTimes::Of(const std::string& name) const {
  if (recorded_ms_.empty()) return {};
  const double ms = TimeIn(recorded_ms_, name);
  const double doubt_ms = left_out_ms_ - TimeIn(not_left_out_ms_, name);
  if (doubt_ms <= kMaxDoubt * ms) return {ms, std::nullopt};
  return {std::nullopt, ms + doubt_ms};
}

}  // namespace jobscope::analysis
