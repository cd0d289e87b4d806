// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/verdict.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/blame/advice.h"
#include "analysis/blame/own_times.h"
#include "analysis/statistics/thresholds.h"
#include "analysis/verdict/bound.h"
#include "analysis/verdict/common_times.h"
#include "analysis/verdict/doubt.h"
#include "analysis/verdict/independent.h"
#include "analysis/verdict/ranks.h"
#include "analysis/verdict/rare.h"

namespace jobscope::analysis {
namespace {

// Puts what bounds all workers in front of a straggler that is worth far less. Waiting is what the
// straggler causes.
void AddLargerBound(const std::vector<size_t>& workers, const Report& counted, Report* report) {
  Finding bound = BoundOfAll(workers, counted);
  if (bound.kind != Finding::Kind::kBound || bound.step_class == StepClass::kWaiting) return;
  const Finding& first = report->findings.front();
  double gain = first.gain.value_or(0);
  // This gain is a share of the steps as measured, that of the bound of steps without rare classes.
  if (first.single_step.has_value()) gain *= *first.step_ms / *bound.step_ms;
  if (bound.gain_low.value_or(0) > kBoundOverStraggler * gain) {
    report->findings.insert(report->findings.begin(), std::move(bound));
  }
}

}  // namespace

void FindVerdict(const Alignment& alignment, const std::vector<MatchTimes>& matches,
                 Report* report) {
  if (report->workers.empty() && !report->missing.empty()) {
    report->verdict =
        Undecidable(absl::StrCat("no worker's trace can be read; ", report->missing.front().worker,
                                 ": ", report->missing.front().reason),
                    kAdviceUnreadable);
    return;
  }
  std::vector<size_t> measured;  // workers with enough steps for a comparison
  size_t most_steps = 0;
  for (const size_t w : alignment.workers) {
    most_steps = std::max(most_steps, report->workers[w].view.steps.size());
    if (report->workers[w].view.steps.size() >= kMinSteps) measured.push_back(w);
  }
  if (measured.empty()) {
    const bool has_clipped_step =
        std::any_of(report->workers.begin(), report->workers.end(),
                    [](const WorkerRow& row) { return row.view.digest->has_clipped_step(); });
    report->verdict =
        most_steps == 0 && has_clipped_step
            ? Undecidable("no step lies within the recording", kAdviceClippedSteps)
        : most_steps == 0
            ? Undecidable("no worker has steps", kAdviceNoSteps)
            : Undecidable(absl::StrFormat("at most %d steps were recorded, and at least %d are "
                                          "needed",
                                          most_steps, kMinSteps),
                          kAdviceFewSteps);
    return;
  }
  const std::optional<Report> without_rare = WithoutRare(measured, *report);
  const Report& counted = without_rare.has_value() ? *without_rare : *report;
  OwnTimes times;
  if (alignment.synchronous) {
    times = OwnTimesOf(alignment, matches, counted);
    BlameRanks(times, without_rare.has_value() ? OwnTimesOf(alignment, matches, *report) : times,
               alignment, counted, report);
    CompareIndependent(alignment.apart, report);
  } else {
    CompareIndependent(alignment.workers, report);
    if (report->verdict.why_undecidable.empty()) DoubtSlowOnesWithFewSteps(measured, report);
  }
  std::stable_sort(report->findings.begin(), report->findings.end(),
                   [](const Finding& a, const Finding& b) {
                     if (a.single_step.has_value() != b.single_step.has_value()) {
                       return b.single_step.has_value();
                     }
                     return a.gain.value_or(0) > b.gain.value_or(0);
                   });
  if (!report->findings.empty()) {
    if (!report->verdict.why_undecidable.empty()) {
      report->warnings.push_back(
          absl::StrCat("not decidable beside the verdict: ", report->verdict.why_undecidable, "; ",
                       report->verdict.advice));
    }
    AddLargerBound(measured, counted, report);
    report->verdict = report->findings.front();
  } else if (report->verdict.why_undecidable.empty()) {
    report->verdict = BoundOfAll(measured, counted);
    Finding& verdict = report->verdict;
    const bool all_known = UnknownWorkers(*report) == 0;  // others may be later
    if (all_known && verdict.step_class == StepClass::kWaiting) {
      NameLatest(*verdict.class_ms, times, alignment, &verdict);
    } else if (all_known && verdict.next_class == StepClass::kWaiting) {
      NameLatest(*verdict.next_ms, times, alignment, &verdict);
    }
    if (report->verdict.gain.has_value()) report->findings.push_back(report->verdict);
  }
}

}  // namespace jobscope::analysis
