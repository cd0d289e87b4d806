// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/ranks.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "analysis/blame/advice.h"
#include "analysis/blame/blame.h"
#include "analysis/blame/latest.h"
#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"
#include "analysis/verdict/cause.h"
#include "analysis/verdict/common_times.h"
#include "analysis/verdict/doubt.h"

namespace jobscope::analysis {
namespace {

// Returns the workers with which those of `finding` are compared.
std::vector<size_t> OthersOf(const Finding& finding, const Alignment& alignment) {
  std::vector<size_t> others;
  for (const size_t w : alignment.workers) {
    const auto& blamed = finding.workers;
    if (std::find(blamed.begin(), blamed.end(), w) == blamed.end()) others.push_back(w);
  }
  return others;
}

// Sets `last_count` and `last_of` of `finding`: its workers arrive last at `last_count` of the
// `last_of` collectives of one name and group, the one in which that costs the others most. Sets
// `wait_ms`, the mean waiting of the other workers per step.
void CountLast(const Alignment& alignment, const Report& report, Finding* finding) {
  double most_ms = 0;
  for (const CollectiveRow& row : report.collectives) {
    size_t count = 0;
    for (const size_t w : finding->workers) {
      if (const auto last = row.last.find(w); last != row.last.end()) count += last->second;
    }
    if (count == 0) continue;
    const double ms = row.wait_ms * static_cast<double>(count) / static_cast<double>(row.count);
    if (finding->last_of > 0 && ms <= most_ms) continue;
    most_ms = ms;
    finding->last_name = row.name;
    finding->last_of = row.count;
    finding->last_count = count;
  }
  std::vector<double> waits;
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const size_t w = alignment.workers[i];
    if (std::find(finding->workers.begin(), finding->workers.end(), w) != finding->workers.end()) {
      continue;
    }
    const std::vector<int64_t>& wait_ns =
        report.workers[w].view.class_ns[Index(StepClass::kWaiting)];
    if (wait_ns.empty()) continue;
    double sum = 0;
    for (const size_t step : alignment.steps[i]) sum += static_cast<double>(wait_ns[step]);
    waits.push_back(sum / static_cast<double>(alignment.common()) / kNsPerMs);
  }
  if (!waits.empty()) finding->wait_ms = Mean(waits);
}

}  // namespace

OwnTimes OwnTimesOf(const Alignment& alignment, const std::vector<MatchTimes>& matches,
                    const Report& report) {
  OwnTimes times;
  times.step_ns.assign(alignment.common(), 0);
  const auto workers = static_cast<double>(alignment.workers.size());
  for (size_t i = 0; i < alignment.workers.size(); ++i) {
    const WorkerView& view = report.workers[alignment.workers[i]].view;
    std::vector<double> own;
    own.reserve(alignment.common());
    for (size_t s = 0; s < alignment.common(); ++s) {
      const size_t step = alignment.steps[i][s];
      own.push_back(static_cast<double>(view.own_ns(step)));
      times.step_ns[s] += static_cast<double>(view.steps[step].account_ns) / workers;
    }
    times.own_ns.push_back(std::move(own));
    times.nodes.push_back(view.digest->host());
    times.gpu_models.push_back(view.digest->gpu_model());
  }
  std::vector<const WorkerView*> views;
  for (const WorkerRow& row : report.workers) views.push_back(&row.view);
  times.transfer_ns = TransferPerStep(alignment, views, matches);
  const bool has_all_transfer =
      std::none_of(report.rare.begin(), report.rare.end(),
                   [](const RareClass& rare) { return rare.step_class == StepClass::kTransfer; });
  if (has_all_transfer) return times;
  for (size_t s = 0; s < alignment.common(); ++s) {
    double most_ns = 0;
    for (size_t i = 0; i < alignment.workers.size(); ++i) {
      const std::vector<int64_t>& transfer_ns =
          views[alignment.workers[i]]->class_ns[Index(StepClass::kTransfer)];
      if (transfer_ns.empty()) continue;
      most_ns = std::max(most_ns, static_cast<double>(transfer_ns[alignment.steps[i][s]]));
    }
    times.transfer_ns[s] = std::min(times.transfer_ns[s], most_ns);
  }
  return times;
}

void BlameRanks(const OwnTimes& times, const OwnTimes& measured_times, const Alignment& alignment,
                const Report& without_rare, Report* report) {
  if (alignment.common() < kMinSteps) {
    report->verdict = Undecidable(
        absl::StrFormat("%d steps are common to all workers, and at least %d are needed",
                        alignment.common(), kMinSteps),
        kAdviceFewCommonSteps);
    return;
  }
  for (const Straggler& straggler : FindStragglers(times, measured_times)) {
    // Rare time is what makes a single step long: only the whole report has it.
    const Report& source = straggler.single ? *report : without_rare;
    Finding finding;
    finding.kind = Finding::Kind::kStraggler;
    for (const size_t i : straggler.workers) finding.workers.push_back(alignment.workers[i]);
    finding.node = straggler.node;
    finding.gpu_model = straggler.gpu_model;
    finding.step_ms = straggler.step_ns / kNsPerMs;
    // With these workers' own times at the median of the others.
    finding.mended_step_ms = straggler.mended_step_ns / kNsPerMs;
    finding.gain = straggler.gain;
    // A worker that is not known may be as slow.
    finding.gain_at_most = straggler.at_most || UnknownWorkers(*report) > 0;
    if (!finding.gain_at_most && !straggler.single) {
      finding.gain_low = straggler.gain_low;
      finding.gain_high = straggler.gain_high;
    }
    finding.late_steps = straggler.late_steps;
    finding.rare = source.rare;
    NameCause(alignment, source, straggler, &finding);
    CountLast(alignment, source, &finding);
    std::optional<Finding> doubt = WhyNotSure(finding, OthersOf(finding, alignment), *report);
    if (!doubt.has_value()) {
      report->findings.push_back(std::move(finding));
    } else if (report->verdict.why_undecidable.empty()) {
      report->verdict = *std::move(doubt);
    }
  }
}

void NameLatest(double waiting_ms, const OwnTimes& times, const Alignment& alignment,
                Finding* waiting) {
  if (times.own_ns.size() < 2) return;
  const double half_ns = waiting_ms * kNsPerMs * static_cast<double>(alignment.common()) / 2;
  waiting->within_steps = MeanWaitNs(times) < half_ns;
  const std::optional<Latest> latest = FindLatest(times);
  if (!latest.has_value() || latest->delay_ns < half_ns) return;
  for (const size_t i : latest->workers) waiting->latest.push_back(alignment.workers[i]);
  waiting->late_steps = latest->late_steps;
}

}  // namespace jobscope::analysis
