// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/doubt.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "analysis/blame/advice.h"
#include "analysis/digest/digest_builder.h"
#include "analysis/statistics/thresholds.h"

namespace jobscope::analysis {
namespace {

// Returns what a worker's GPU lost, if that is too much for certainty; else empty. Its time counts
// as that of another class: host work, for which the device seems to wait.
std::string DeviceLostTooMuch(const v1::Digest& digest) {
  const uint64_t lost = LostOfDevices(digest);
  uint64_t recorded = 0;
  for (const v1::DigestName& kernel : digest.kernels()) recorded += kernel.count();
  if (static_cast<double>(lost) <= kMaxLost * static_cast<double>(recorded + lost)) return {};
  return absl::StrFormat("%d records of its GPU are lost, beside %d kernels and copies", lost,
                         recorded);
}

// Returns what a worker's step thread or GPU lost, if that is too much for certainty; else empty. A
// worker that was killed reports no losses by thread: the manifest may know the sum.
std::string LostTooMuch(const WorkerRow& row) {
  const v1::Digest& digest = *row.view.digest;
  const bool by_thread = digest.step_thread_attempted() > 0;
  const auto lost = static_cast<double>(by_thread ? digest.step_thread_lost() : digest.lost());
  const double all = by_thread ? static_cast<double>(digest.step_thread_attempted())
                               : static_cast<double>(digest.events()) + lost;
  if (lost <= kMaxLost * all) return DeviceLostTooMuch(digest);
  return absl::StrFormat("%.1f %% of its %s", 100 * lost / all,
                         by_thread ? "step thread's events are lost"
                                   : "events are lost, on which threads is not known");
}

// Returns why lost events may have changed the median of `others`; empty: they cannot.
std::string LostByHalf(const std::vector<size_t>& others, const Report& report) {
  size_t with_losses = 0;
  std::string first;
  for (const size_t w : others) {
    const std::string lost = LostTooMuch(report.workers[w]);
    if (lost.empty() || ++with_losses > 1) continue;
    first = absl::StrCat("of ", report.workers[w].view.name, " ", lost);
  }
  if (with_losses == 0 || 2 * with_losses < others.size()) return {};
  return with_losses == 1 ? first
                          : absl::StrCat(first, ", and ", with_losses - 1, " more of the others ",
                                         "lost too many");
}

}  // namespace

Finding Undecidable(std::string why, std::string_view advice) {
  Finding finding;
  finding.kind = Finding::Kind::kUndecidable;
  finding.why_undecidable = std::move(why);
  finding.advice = std::string(advice);
  return finding;
}

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

Finding WaitOrLink(size_t worker, const Report& report) {
  const WorkerRow& row = report.workers[worker];
  const double in_collectives_ms = *row.mean_ms - *row.own_ms;
  return Undecidable(
      absl::StrFormat("%s spends %.0f %% of its steps in collectives, most of it where members are "
                      "not recorded: it is unknown whether it waits for these or the link is slow",
                      row.view.name, 100 * in_collectives_ms / *row.mean_ms),
      kAdviceMembers);
}

std::optional<Finding> WhyNotSure(const Finding& finding, const std::vector<size_t>& others,
                                  const Report& report) {
  // Times of a worker that waits for nobody come from its own clock only. Among others, the clocks
  // of several show who was late, and what of the time in collectives is waiting.
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
  // A worker stands out against what the others recorded: work that they lost counts as waiting.
  if (const std::string lost = LostByHalf(others, report); !lost.empty()) {
    return Undecidable(
        absl::StrCat(report.workers[finding.workers.front()].view.name, " stands out, but ", lost),
        kAdviceLosses);
  }
  return std::nullopt;
}

}  // namespace jobscope::analysis
