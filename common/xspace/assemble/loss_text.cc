// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/loss_text.h"

#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "common/xspace/segment/loss_cause.h"

namespace jobscope::xspace {
namespace {

std::string LossText(const std::string& cause, uint64_t events, uint64_t attempted) {
  const std::string of = attempted == 0 ? "" : absl::StrCat(" of ", attempted);
  return absl::StrCat(events, of, " events lost (", cause, "): ", ExplanationOf(cause),
                      "; see docs/trace_format.md, Losses");
}

}  // namespace

std::vector<std::string> Warnings(const ItemIndex& index) {
  std::vector<std::string> warnings;
  if (index.has_summary) {
    const v1::Summary& summary = index.summary;
    for (const v1::LossByCause& loss : summary.lost_by_cause()) {
      if (loss.events() != 0) {
        warnings.push_back(LossText(loss.cause(), loss.events(), summary.attempted()));
      }
    }
    warnings.insert(warnings.end(), summary.warnings().begin(), summary.warnings().end());
    if (summary.truncated()) {
      warnings.push_back(absl::StrCat(
          "the capture ended before its planned end (", summary.ended_by(), "): the trace covers ",
          summary.duration_ns() / 1000000, " ms; what it holds is complete up to there"));
    }
  } else {
    std::map<std::string, uint64_t> lost;
    for (const auto& [collector, loss] : index.losses) {
      for (const v1::LossByCause& by_cause : loss.causes()) {
        lost[by_cause.cause()] += by_cause.events();
      }
    }
    for (const auto& [cause, events] : lost) {
      if (events != 0) warnings.push_back(LossText(cause, events, 0));
    }
    warnings.emplace_back(
        "the capture has no summary: the worker or its connection ended in the middle of it; the "
        "trace holds what had arrived until then, and losses may not be counted in full");
  }
  warnings.insert(warnings.end(), index.warnings.begin(), index.warnings.end());
  return warnings;
}

}  // namespace jobscope::xspace
