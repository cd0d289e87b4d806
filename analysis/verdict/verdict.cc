// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/verdict.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/blame/advice.h"
#include "analysis/blame/blame.h"
#include "analysis/blame/bounds.h"
#include "analysis/blame/latest.h"
#include "analysis/statistics/statistics.h"
#include "analysis/statistics/thresholds.h"
#include "analysis/verdict/bound.h"
#include "analysis/verdict/cause.h"
#include "analysis/verdict/common_times.h"
#include "analysis/verdict/culprits.h"
#include "analysis/verdict/rare.h"

namespace jobscope::analysis {
namespace {

Finding Undecidable(std::string why, std::string_view advice) {
  Finding finding;
  finding.kind = Finding::Kind::kUndecidable;
  finding.why_undecidable = std::move(why);
  finding.advice = std::string(advice);
  return finding;
}

// Returns what a worker's step thread lost, if that is too much for certainty; else empty. A worker
// that was killed tells no losses by thread: the manifest may know the sum.
std::string LostTooMuch(const WorkerRow& row) {
  const v1::Digest& digest = *row.view.digest;
  const bool by_thread = digest.step_thread_attempted() > 0;
  const auto lost = static_cast<double>(by_thread ? digest.step_thread_lost() : digest.lost());
  const double all = by_thread ? static_cast<double>(digest.step_thread_attempted())
                               : static_cast<double>(digest.events()) + lost;
  if (lost <= kMaxLost * all) return {};
  return absl::StrFormat("%.1f %% of its %s", 100 * lost / all,
                         by_thread ? "step thread's events are lost"
                                   : "events are lost, on which threads is not known");
}

// Returns why lost events may hide what takes the time of `workers`; empty: they cannot. Only the
// workers that make the class count: those that spend at least half of the mean in it.
std::string WhyLossesDecide(const std::vector<size_t>& workers, const Finding& finding,
                            const Report& report) {
  for (const size_t w : workers) {
    const std::optional<double>& class_ms =
        report.workers[w].classes_ms[Index(*finding.step_class)];
    const std::string lost = LostTooMuch(report.workers[w]);
    if (lost.empty() || 2 * class_ms.value_or(0) < finding.class_ms.value_or(0)) continue;
    return absl::StrCat("of ", report.workers[w].view.name, " ", lost);
  }
  return {};
}

// Returns the finding for a worker that spends much time in collectives with unknown members.
Finding WaitOrLink(size_t worker, const Report& report) {
  const WorkerRow& row = report.workers[worker];
  const double in_collectives_ms = *row.mean_ms - *row.own_ms;
  return Undecidable(
      absl::StrFormat("%s spends %.0f %% of its steps in collectives, most of it where members are "
                      "not recorded: whether it waits for these or the link is slow, cannot be "
                      "told",
                      row.view.name, 100 * in_collectives_ms / *row.mean_ms),
      kAdviceMembers);
}

// Returns what bounds all workers together, if nobody stands out.
Finding BoundOfAll(const std::vector<size_t>& workers, const Report& report) {
  Finding finding = BoundOfWorkers(workers, report);
  if (!finding.step_class.has_value()) {
    return Undecidable("the steps take no time", kAdviceEmptySteps);
  }
  const std::string losses = WhyLossesDecide(workers, finding, report);
  if (!losses.empty()) return Undecidable(losses, kAdviceLosses);
  if (workers.size() == 1) {
    if (finding.kind == Finding::Kind::kBound && finding.step_class == StepClass::kTransfer &&
        TransferIsUnsure(workers, report)) {
      return WaitOrLink(workers.front(), report);
    }
    finding.workers = workers;
    return finding;
  }
  if (finding.kind != Finding::Kind::kBound) return finding;
  const bool communication =
      *finding.step_class == StepClass::kTransfer || *finding.step_class == StepClass::kWaiting;
  const size_t unknown = UnknownWorkers(report);
  const size_t left_out = unknown - report.missing.size();
  if (communication && unknown > 0) {
    return Undecidable(
        absl::StrFormat("the workers spend %.0f %% of their steps in collectives, and %d of %d "
                        "workers are missing%s: whether these are slow or the link is, cannot be "
                        "told",
                        100 * *finding.class_ms / *finding.step_ms, unknown,
                        report.expected_workers, left_out > 0 ? " or recorded too few steps" : ""),
        left_out > 0 ? kAdviceMissingSteps : kAdviceMissing);
  }
  if (*finding.step_class == StepClass::kTransfer && TransferIsUnsure(workers, report)) {
    return Undecidable(
        absl::StrFormat("the workers spend %.0f %% of their steps in collectives, most of it where "
                        "members are not recorded: whether these are slow or the link is, cannot "
                        "be told",
                        100 * *finding.class_ms / *finding.step_ms),
        kAdviceMembers);
  }
  // The computation itself, or time that is not recorded, bounds nobody.
  if (!finding.gain.has_value()) finding.kind = Finding::Kind::kBalanced;
  return finding;
}

// Returns what takes the place of `finding` if its cause is not reliable.
std::optional<Finding> WhyNotSure(const Finding& finding, const Report& report) {
  // Times of a worker that waits for nobody come from its own clock only. Among others, the clocks
  // of several tell who was late, and what of the time in collectives is waiting.
  const bool compares_clocks = finding.kind == Finding::Kind::kStraggler ||
                               finding.step_class == StepClass::kWaiting ||
                               finding.step_class == StepClass::kTransfer;
  for (const size_t w : finding.workers) {
    const v1::Digest& digest = *report.workers[w].view.digest;
    if (const std::string lost = LostTooMuch(report.workers[w]); !lost.empty()) {
      return Undecidable(absl::StrCat(digest.name(), " stands out, but ", lost), kAdviceLosses);
    }
    const double uncertainty_ms = static_cast<double>(digest.clock_uncertainty_ns()) / kNsPerMs;
    if (compares_clocks && finding.step_ms.has_value() && finding.mended_step_ms.has_value() &&
        *finding.step_ms - *finding.mended_step_ms < uncertainty_ms) {
      return Undecidable(
          absl::StrFormat("%s stands out by less than the uncertainty of the clocks, %.3f ms",
                          digest.name(), uncertainty_ms),
          kAdviceClocks);
    }
  }
  return std::nullopt;
}

// Counts how often the workers of `finding` are the last, in the collective in which that costs
// most.
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
  std::vector<WorkerView> views;
  views.reserve(report.workers.size());
  for (const WorkerRow& row : report.workers) views.push_back(row.view);
  times.transfer_ns = TransferPerStep(alignment, views, matches);
  const bool has_all_transfer =
      std::none_of(report.rare.begin(), report.rare.end(),
                   [](const RareClass& rare) { return rare.step_class == StepClass::kTransfer; });
  if (has_all_transfer) return times;
  for (size_t s = 0; s < alignment.common(); ++s) {
    double most_ns = 0;
    for (size_t i = 0; i < alignment.workers.size(); ++i) {
      const std::vector<int64_t>& transfer_ns =
          views[alignment.workers[i]].class_ns[Index(StepClass::kTransfer)];
      if (transfer_ns.empty()) continue;
      most_ns = std::max(most_ns, static_cast<double>(transfer_ns[alignment.steps[i][s]]));
    }
    times.transfer_ns[s] = std::min(times.transfer_ns[s], most_ns);
  }
  return times;
}

// Finds stragglers among ranks that wait for each other: by `counted`, which lacks what is rare,
// and single steps as measured.
void BlameRanks(const OwnTimes& times, const OwnTimes& measured, const Alignment& alignment,
                const Report& counted, Report* report) {
  if (alignment.common() < kMinSteps) {
    report->verdict = Undecidable(
        absl::StrFormat("%d steps are common to all workers, and at least %d are needed",
                        alignment.common(), kMinSteps),
        kAdviceFewCommonSteps);
    return;
  }
  for (const Straggler& straggler : FindStragglers(times, measured)) {
    const Report& source = straggler.single ? *report : counted;
    Finding finding;
    finding.kind = Finding::Kind::kStraggler;
    for (const size_t i : straggler.workers) finding.workers.push_back(alignment.workers[i]);
    finding.node = straggler.node;
    finding.gpu_model = straggler.gpu_model;
    finding.step_ms = straggler.step_ns / kNsPerMs;
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
    std::optional<Finding> doubt = WhyNotSure(finding, *report);
    if (!doubt.has_value()) {
      report->findings.push_back(std::move(finding));
    } else if (report->verdict.why_undecidable.empty()) {
      report->verdict = *std::move(doubt);
    }
  }
}

// Returns whether two workers that do not wait for each other do the same, as far as is known.
bool AreAlike(const WorkerRow& a, const WorkerRow& b) {
  return a.view.digest->executable() == b.view.digest->executable() &&
         a.view.digest->step_name() == b.view.digest->step_name();
}

// Finds, among workers without collectives, those whose steps take longer than the others', each
// with its own cause.
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
    // Of an even number the larger one: where most are equally slow, one of the others is fast.
    const double reference = Quantile(means, 0.5);
    if (others.empty() || reference <= 0 || *row.mean_ms < kSlowWorker * reference) continue;
    Finding finding;
    finding.kind = Finding::Kind::kBound;
    finding.workers = {w};
    finding.step_ms = row.mean_ms;
    finding.rare = counted.rare;
    SlowTimes of_row;
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
          absl::StrFormat("%s takes %.1f ms per step, the others %.1f ms: in what cannot be told, "
                          "because they do not record the same classes of time",
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
    if (std::optional<Finding> doubt = WhyNotSure(finding, *report)) {
      report->verdict = *std::move(doubt);
      continue;
    }
    report->findings.push_back(std::move(finding));
  }
}

// Finds a worker without collectives that is slow, but recorded too few steps for a comparison: the
// others alone are not the answer.
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

// Names who causes at least half of the waiting of `waiting_ms` per step, or tells that most of it
// is within steps.
void NameLatest(double waiting_ms, const OwnTimes& times, const Alignment& alignment,
                Finding* waiting) {
  if (times.own_ns.size() < 2) return;
  const double half_ns = waiting_ms * kNsPerMs * static_cast<double>(alignment.common()) / 2;
  waiting->within_steps = WaitsByStep(times) < half_ns;
  const std::optional<Latest> latest = FindLatest(times);
  if (!latest.has_value() || latest->ns < half_ns) return;
  for (const size_t i : latest->workers) waiting->latest.push_back(alignment.workers[i]);
  waiting->late_steps = latest->steps;
}

// Puts what bounds all workers in front of a straggler that is worth far less. Waiting is what the
// straggler causes.
void AddLargerBound(const std::vector<size_t>& workers, const Report& counted, Report* report) {
  Finding bound = BoundOfAll(workers, counted);
  if (bound.kind != Finding::Kind::kBound || bound.step_class == StepClass::kWaiting) return;
  const Finding& first = report->findings.front();
  double gain = first.gain.value_or(0);
  // Of steps as measured: what is rare is left out of those of the bound.
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
    report->verdict =
        most_steps == 0
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
    if (verdict.step_class == StepClass::kWaiting) {
      NameLatest(*verdict.class_ms, times, alignment, &verdict);
    } else if (verdict.next_class == StepClass::kWaiting) {
      NameLatest(*verdict.next_ms, times, alignment, &verdict);
    }
    if (report->verdict.gain.has_value()) report->findings.push_back(report->verdict);
  }
}

}  // namespace jobscope::analysis
