// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/session_warnings.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {
namespace {

// Share of kernels that begin before their launch, above which a warning is due.
constexpr double kMaxEarlyShare = 1e-4;

// Returns whether a CUDA graph that is being recorded from a stream as CUPTI attaches crashes the
// process when it is destroyed. Observed with 12.8.90 and 12.9.79, and not with 12.4, 12.6 and
// 13.0.1.
bool CrashesRecordings(uint32_t version) { return version >= kCupti12_8 && version < kCupti13_0; }

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
  add(account.allocations_left_out,
      "memory allocations are not in the totals of GPU memory: the capture followed as many live "
      "ones as it can; record for a shorter time");
  add(account.unnamed_kernels,
      "kernels are called \"other kernels\": the capture had no room for more names of kernels");
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

std::string TorchProfilerWarning() {
  return "a torch.profiler block recorded during this capture, and CUPTI serves one profiler at a "
         "time: if the block records GPUs, the capture lacks the GPU's work from the block's begin "
         "on, and the block lacks what CUPTI wrote for the capture meanwhile; capture again while "
         "no torch.profiler block runs, and run that block again without a capture";
}

std::string KernelsStayWarning(uint32_t version) {
  return absl::StrCat(
      "CUPTI ", CuptiVersionText(version),
      " goes on tracing kernels after the capture, which may slow the job a little: to switch "
      "that off can block a process that uses CUDA graphs for ever, before CUDA 13.0 update 1",
      CrashesRecordings(version)
          ? "; it can crash a process that is recording a CUDA graph as a capture begins: capture "
            "when the program has built its graphs, or use a libcupti of CUDA 13"
          : "");
}

}  // namespace jobscope::cuda
