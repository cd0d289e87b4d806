// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/assemble/loss_text.h"

#include <array>
#include <cstdint>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace jobscope::xspace {
namespace {

struct Explanation {
  absl::string_view cause;
  absl::string_view text;
};

constexpr std::array<Explanation, 15> kExplanations = {{
    {"overwritten",
     "overwritten before they were read; record less (a lower host_tracer_level) or give each "
     "thread a larger ring (ring_records)"},
    {"store_full",
     "the worker's store was full; capture for a shorter time, record less, or raise "
     "JOBSCOPE_STORE_MB (store_bytes)"},
    {"no_ring",
     "their threads found no ring because the process's limit on rings was reached; raise "
     "rings_cap_bytes"},
    {"clock",
     "the time stamp counter jumped while they were recorded, so that their times are not known"},
    {"reentered", "a signal handler recorded while its thread was recording; no action is needed"},
    {"dictionary_full",
     "there was no room for further names; use fewer different names for scopes and arguments"},
    {"deadline",
     "still unread when the capture had to end; capture again when the machine is less busy, or "
     "record less"},
    {"cupti_dropped",
     "CUPTI had no room for them; raise JOBSCOPE_CUDA_BUFFER_MB, or capture for a shorter time"},
    {"gpu_pool",
     "CUPTI wrote them to a buffer discarded because the pool was full; raise "
     "JOBSCOPE_CUDA_BUFFER_MB"},
    {"gpu_no_timestamp",
     "CUPTI gave them no start time, mostly because its pool on the device was used up by graph "
     "nodes; raise JOBSCOPE_CUDA_DEVICE_BUFFER_MB, or trace graphs as a whole "
     "(JOBSCOPE_CUDA_GRAPHS=whole)"},
    {"gpu_unfinished", "launched in the window, and still queued on the GPU after its end"},
    {"buffer_full",
     "a provider gave more during the capture than its buffer of 4 MiB holds for 100 ms; it should "
     "give fewer, or give them in stop()"},
    {"malformed", "a provider gave them without a name, with a negative duration, or the like"},
    {"too_many_lines", "a provider named more lines than the 128 that it may have"},
    {"invalid", "their records were malformed; please report it with the trace"},
}};

std::string LossText(absl::string_view cause, uint64_t events, uint64_t attempted) {
  absl::string_view text = "lost by the collector";
  for (const Explanation& explanation : kExplanations) {
    if (explanation.cause == cause) text = explanation.text;
  }
  const std::string of = attempted == 0 ? "" : absl::StrCat(" of ", attempted);
  return absl::StrCat(events, of, " events lost (", cause, "): ", text,
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
