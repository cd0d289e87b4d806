// SPDX-License-Identifier: Apache-2.0
#include "client/run/judge_trace.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace jobscope {
namespace {

// A start that is late by this much causes a warning: well above the scheduling delays of a loaded
// machine.
constexpr uint64_t kLateNs = 10'000'000;

// `with_host_off`: also why the host collector is off, which has something to record in every
// worker; others are off mostly because there is nothing.
std::string Reasons(const ManifestWorker& account, bool with_host_off) {
  std::vector<std::string> reasons;
  for (const ManifestCollector& collector : account.collectors) {
    const bool host_off =
        with_host_off && collector.state == CollectorState::kOff && collector.name == "host";
    if (collector.reason.empty() || !(IsFault(collector.state) || host_off)) continue;
    reasons.push_back(
        absl::StrCat(collector.name, " ", collector.state.name(), ": ", collector.reason));
  }
  return absl::StrJoin(reasons, "; ");
}

}  // namespace

// `capture check` and the manifest give the reason of those that are off.
std::string CollectorReasons(const ManifestWorker& account) {
  return Reasons(account, /*with_host_off=*/false);
}

std::string WithReason(std::string text, const std::string& more) {
  if (!more.empty()) absl::StrAppend(&text, text.empty() ? "" : "; ", more);
  return text;
}

WorkerOutcome JudgeOwnTrace(const v1::Summary& summary, uint64_t events, ManifestWorker* account) {
  FillFromSummary(summary, account);
  const bool account_unknown = AccountUnknown(summary);
  if (summary.events() != events) account->events = events;
  if (summary.events() != events && !account_unknown) {
    account->warnings.push_back(
        absl::StrCat("the worker counted ", summary.events(), " events, the file holds ", events));
  }
  if (summary.late_ns() >= kLateNs) {
    account->warnings.push_back(
        absl::StrCat("began to record ", summary.late_ns() / 1'000'000,
                     " ms after the common start: the start reached it too late, or it was not "
                     "ready; --delay_ms gives it time"));
  }
  const std::string reasons = CollectorReasons(*account);
  if (summary.truncated()) {
    const std::string by = summary.ended_by().empty() ? "early" : summary.ended_by();
    return {Outcome::kTruncated, Phase::kDone,
            WithReason(
                absl::StrCat("ended by ", by, " after ", summary.duration_ns() / 1'000'000, " ms"),
                reasons),
            std::nullopt};
  }
  if (account_unknown) return {Outcome::kTruncated, Phase::kDone, reasons, std::nullopt};
  if (events == 0) {
    return {Outcome::kEmpty, Phase::kDone,
            WithReason("nothing was recorded: no event fell into the window",
                       Reasons(*account, /*with_host_off=*/true)),
            std::nullopt};
  }
  return {Outcome::kOk, Phase::kDone, reasons, std::nullopt};
}

}  // namespace jobscope
