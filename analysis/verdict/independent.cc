// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/independent.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "analysis/blame/advice.h"
#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"
#include "analysis/verdict/cause.h"
#include "analysis/verdict/common_times.h"
#include "analysis/verdict/culprits.h"
#include "analysis/verdict/doubt.h"
#include "analysis/verdict/rare.h"

namespace jobscope::analysis {
namespace {

// Returns whether two workers that do not wait for each other do the same, as far as is known.
bool AreAlike(const WorkerRow& a, const WorkerRow& b) {
  return a.view.digest->executable() == b.view.digest->executable() &&
         a.view.digest->step_name() == b.view.digest->step_name();
}

}  // namespace

void CompareIndependent(const std::vector<size_t>& candidates, Report* report) {
  std::vector<size_t> workers;
  for (const size_t w : candidates) {
    if (report->workers[w].view.steps.size() >= kMinSteps) workers.push_back(w);
  }
  const std::optional<Report> without_rare = WithoutRare(workers, *report);
  const Report& counted = without_rare.has_value() ? *without_rare : *report;
  for (const size_t w : workers) {
    const WorkerRow& row = counted.workers[w];
    std::vector<size_t> others;
    std::vector<double> means;
    for (const size_t other : workers) {
      if (other == w || !AreAlike(row, counted.workers[other])) continue;
      others.push_back(other);
      means.push_back(counted.workers[other].mean_ms.value_or(0));
    }
    // With an even number, takes the larger of the two middle values: if most workers are equally
    // slow, the smaller one may be that of a fast worker.
    const double reference = Quantile(means, 0.5);
    if (others.empty() || reference <= 0 || *row.mean_ms < kSlowWorker * reference) continue;
    Finding finding;
    finding.kind = Finding::Kind::kBound;
    finding.workers = {w};
    finding.step_ms = row.mean_ms;
    finding.rare = counted.rare;
    MeanTimes of_row;
    OtherTimes of_others;
    for (size_t c = 0; c < kStepClasses; ++c) {
      const auto step_class = static_cast<StepClass>(c);
      if (row.view.Knows(step_class)) of_row[c] = row.classes_ms[c].value_or(0);
      for (const size_t other : others) {
        if (!counted.workers[other].view.Knows(step_class)) continue;
        of_others[c].push_back(counted.workers[other].classes_ms[c].value_or(0));
      }
    }
    double most = 0;
    bool alike = true;  // all record the same classes
    for (size_t c = 0; c < kStepClasses; ++c) {
      alike = alike && of_others[c].size() == (of_row[c].has_value() ? others.size() : 0);
      const Excess excess = ExcessIn(static_cast<StepClass>(c), of_row, of_others);
      if (!row.classes_ms[c].has_value() || excess.ms <= most) continue;
      most = excess.ms;
      finding.step_class = static_cast<StepClass>(c);
      finding.class_ms = row.classes_ms[c];
      finding.class_others_ms = excess.others_ms;
    }
    // It exceeds the others as a whole, but in no class.
    if (!finding.step_class.has_value() && alike) continue;
    if (!finding.class_others_ms.has_value()) {
      report->verdict = Undecidable(
          absl::StrFormat("%s takes %.1f ms per step, the others %.1f ms: the class of the "
                          "difference is unknown, because they do not record the same classes of "
                          "time",
                          row.view.name, *row.mean_ms, reference),
          kAdviceSameCollectors);
      continue;
    }
    if (finding.step_class == StepClass::kTransfer && TransferIsUnsure(finding.workers, counted)) {
      report->verdict = WaitOrLink(w, counted);
      continue;
    }
    finding.mended_step_ms = *finding.step_ms - most;
    finding.gain = most / *finding.step_ms;
    std::vector<double> saved;
    std::vector<double> all;
    const std::vector<int64_t>& column = row.view.class_ns[Index(*finding.step_class)];
    for (size_t s = 0; s < row.view.steps.size(); ++s) {
      saved.push_back(static_cast<double>(column[s]) - *finding.class_others_ms * kNsPerMs);
      all.push_back(static_cast<double>(row.view.steps[s].account_ns));
    }
    const Range range = BootstrapRatio(saved, all);
    if (range.low < kMinGainLow) continue;
    finding.gain_low = range.low;
    finding.gain_high = range.high;
    finding.names =
        FindCulprits(*finding.step_class, *finding.class_ms, finding.workers, others, counted);
    NameSleep(finding.workers, others, counted, &finding);
    NameLimits(finding.workers, others, counted, &finding);
    if (std::optional<Finding> doubt = WhyNotSure(finding, others, *report)) {
      report->verdict = *std::move(doubt);
      continue;
    }
    report->findings.push_back(std::move(finding));
  }
}

void DoubtSlowOnesWithFewSteps(const std::vector<size_t>& measured, Report* report) {
  for (const WorkerRow& row : report->workers) {
    const size_t steps = row.view.steps.size();
    if (steps == 0 || steps >= kMinSteps) continue;
    std::vector<double> means;
    for (const size_t w : measured) {
      if (!AreAlike(row, report->workers[w])) continue;
      means.push_back(report->workers[w].mean_ms.value_or(0));
    }
    const double reference = Quantile(means, 0.5);
    if (reference <= 0 || *row.mean_ms < kSlowWorker * reference) continue;
    report->verdict = Undecidable(
        absl::StrFormat("%s takes %.1f ms per step, the others %.1f ms, but recorded only %d %s, "
                        "and at least %d are needed",
                        row.view.name, *row.mean_ms, reference, steps,
                        steps == 1 ? "step" : "steps", kMinSteps),
        kAdviceFewSteps);
    return;
  }
}

}  // namespace jobscope::analysis
