// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/session_warnings.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace jobscope::cuda {
namespace {

// Share of kernels that begin before their launch, above which a warning is due.
constexpr double kMaxEarlyShare = 1e-4;

}  // namespace

std::vector<std::string> SessionWarnings(const BufferPool::Counts& buffers,
                                         const SessionAccount& account, size_t clock_steps,
                                         const LaunchOrder& order) {
  std::vector<std::string> warnings;
  const auto add = [&](uint64_t count, absl::string_view text) {
    if (count > 0) warnings.push_back(absl::StrCat(count, " ", text));
  };
  add(buffers.refused + buffers.discarded,
      "times CUPTI asked for a buffer and all were in use: records were lost; raise "
      "JOBSCOPE_CUDA_BUFFER_MB");
  add(buffers.shared, "buffers were shared by several threads: their records are lost, uncounted");
  add(buffers.late, "buffers came back after the end of a capture: their records are in no trace");
  add(buffers.foreign,
      "buffers of another profiler came to jobscope, which had replaced its callbacks in CUPTI: "
      "that profiler has lost their records");
  add(account.unreadable_buffers, "buffers could not be read to their end");
  for (const auto& [kind, count] : account.unknown_kinds) {
    warnings.push_back(absl::StrCat(count, " records of CUPTI's kind ", kind, " were left out"));
  }
  add(clock_steps,
      "times CUPTI's clock jumped during the capture (the system's clock was set, or another "
      "profiler gave CUPTI its own): times of GPU events are off around these instants");
  if (static_cast<double>(order.early) > static_cast<double>(order.launches) * kMaxEarlyShare) {
    warnings.push_back(absl::StrCat(order.early, " of ", order.launches,
                                    " kernels start before the call that launched them: the GPU's "
                                    "clock is off"));
  }
  return warnings;
}

}  // namespace jobscope::cuda
