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

// Returns those of `workers` that do the same as `row`, without itself.
std::vector<size_t> PeersOf(const WorkerRow& row, const std::vector<size_t>& workers,
                            const Report& report) {
  std::vector<size_t> peers;
  for (const size_t w : workers) {
    const WorkerRow& other = report.workers[w];
    if (&other != &row && AreAlike(row, other)) peers.push_back(w);
  }
  return peers;
}

// Returns the median of the mean steps of `peers`; absent without any. Of an even number it is the
// larger of the two middle values: if most workers are equally slow, the smaller one may be that of
// a fast worker.
std::optional<double> MedianStepMs(const std::vector<size_t>& peers, const Report& report) {
  std::vector<double> means;
  for (const size_t w : peers) means.push_back(report.workers[w].mean_ms.value_or(0));
  const double median = Quantile(means, 0.5);
  return median > 0 ? std::optional<double>(median) : std::nullopt;
}

bool IsSlow(const WorkerRow& row, std::optional<double> median_ms) {
  return median_ms.has_value() && *row.mean_ms >= kSlowWorker * *median_ms;
}

// By how much a worker exceeds its peers in the class in which it exceeds them most.
struct LargestExcess {
  double ms = 0;
  bool same_classes = true;  // all of these workers record the same classes
};

// Sets the class of `finding`, and its times. There is none if the worker exceeds its peers in no
// class.
LargestExcess NameClass(const WorkerRow& row, const std::vector<size_t>& peers,
                        const Report& report, Finding* finding) {
  MeanTimes of_row;
  OtherTimes of_peers;
  for (size_t c = 0; c < kStepClasses; ++c) {
    const auto step_class = static_cast<StepClass>(c);
    if (row.view.Knows(step_class)) of_row[c] = row.classes_ms[c].value_or(0);
    for (const size_t peer : peers) {
      if (!report.workers[peer].view.Knows(step_class)) continue;
      of_peers[c].push_back(report.workers[peer].classes_ms[c].value_or(0));
    }
  }
  LargestExcess largest;
  for (size_t c = 0; c < kStepClasses; ++c) {
    if (of_peers[c].size() != (of_row[c].has_value() ? peers.size() : 0)) {
      largest.same_classes = false;
    }
    const Excess excess = ExcessIn(static_cast<StepClass>(c), of_row, of_peers);
    if (!row.classes_ms[c].has_value() || excess.ms <= largest.ms) continue;
    largest.ms = excess.ms;
    finding->step_class = static_cast<StepClass>(c);
    finding->class_ms = row.classes_ms[c];
    finding->class_others_ms = excess.others_ms;
  }
  return largest;
}

// Sets what the worker gains if it spends as much time in the class as its peers. Returns whether
// that is worth a finding.
bool SetGain(const WorkerRow& row, double excess_ms, Finding* finding) {
  finding->mended_step_ms = *finding->step_ms - excess_ms;
  finding->gain = excess_ms / *finding->step_ms;
  std::vector<double> saved;
  std::vector<double> all;
  const std::vector<int64_t>& column = row.view.class_ns[Index(*finding->step_class)];
  for (size_t s = 0; s < row.view.steps.size(); ++s) {
    saved.push_back(static_cast<double>(column[s]) - *finding->class_others_ms * kNsPerMs);
    all.push_back(static_cast<double>(row.view.steps[s].account_ns));
  }
  const Range range = BootstrapRatio(saved, all);
  finding->gain_low = range.low;
  finding->gain_high = range.high;
  return range.low >= kMinGainLow;
}

// Adds a finding to `report` if the worker is slow, or makes its verdict a doubt. `counted`: the
// report without what is too rare to count.
void CompareWithPeers(size_t worker, const std::vector<size_t>& workers, const Report& counted,
                      Report* report) {
  const WorkerRow& row = counted.workers[worker];
  const std::vector<size_t> peers = PeersOf(row, workers, counted);
  const std::optional<double> median_ms = MedianStepMs(peers, counted);
  if (!IsSlow(row, median_ms)) return;
  Finding finding;
  finding.kind = Finding::Kind::kBound;
  finding.workers = {worker};
  finding.step_ms = row.mean_ms;
  finding.rare = counted.rare;
  const LargestExcess excess = NameClass(row, peers, counted, &finding);
  // It exceeds the others as a whole, but in no class.
  if (!finding.step_class.has_value() && excess.same_classes) return;
  if (!finding.class_others_ms.has_value()) {
    report->verdict = Undecidable(
        absl::StrFormat("%s takes %.1f ms per step, the others %.1f ms: the class of the "
                        "difference is unknown, because they do not record the same classes of "
                        "time",
                        row.view.name, *row.mean_ms, *median_ms),
        kAdviceSameCollectors);
    return;
  }
  if (finding.step_class == StepClass::kTransfer && TransferIsUnsure(finding.workers, counted)) {
    report->verdict = WaitOrLink(worker, counted);
    return;
  }
  if (!SetGain(row, excess.ms, &finding)) return;
  finding.names =
      FindCulprits(*finding.step_class, *finding.class_ms, finding.workers, peers, counted);
  NameSleep(finding.workers, peers, counted, &finding);
  NameLimits(finding.workers, peers, counted, &finding);
  if (std::optional<Finding> doubt = WhyNotSure(finding, peers, *report)) {
    report->verdict = *std::move(doubt);
    return;
  }
  report->findings.push_back(std::move(finding));
}

}  // namespace

void CompareIndependent(const std::vector<size_t>& candidates, Report* report) {
  std::vector<size_t> workers;
  for (const size_t w : candidates) {
    if (report->workers[w].view.steps.size() >= kMinSteps) workers.push_back(w);
  }
  const std::optional<Report> without_rare = WithoutRare(workers, *report);
  const Report& counted = without_rare.has_value() ? *without_rare : *report;
  for (const size_t w : workers) CompareWithPeers(w, workers, counted, report);
}

void DoubtSlowOnesWithFewSteps(const std::vector<size_t>& measured, Report* report) {
  for (const WorkerRow& row : report->workers) {
    const size_t steps = row.view.steps.size();
    if (steps == 0 || steps >= kMinSteps) continue;
    const std::optional<double> median_ms = MedianStepMs(PeersOf(row, measured, *report), *report);
    if (!IsSlow(row, median_ms)) continue;
    report->verdict = Undecidable(
        absl::StrFormat("%s takes %.1f ms per step, the others %.1f ms, but recorded only %d %s, "
                        "and at least %d are needed",
                        row.view.name, *row.mean_ms, *median_ms, steps,
                        steps == 1 ? "step" : "steps", kMinSteps),
        kAdviceFewSteps);
    return;
  }
}

}  // namespace jobscope::analysis
