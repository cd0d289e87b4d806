// SPDX-License-Identifier: Apache-2.0
//
// Decides whether CUPTI is finalized after a capture.
#ifndef COLLECTORS_CUDA_TRACING_FINALIZE_POLICY_H_
#define COLLECTORS_CUDA_TRACING_FINALIZE_POLICY_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace jobscope::cuda {

// The user's choice, from JOBSCOPE_CUPTI_FINALIZE. Off by default, because its failures happen on
// application threads, and it gains nothing where it was measured.
enum class FinalizeChoice {
  kNever,      // any other value
  kByVersion,  // "auto": if the table calls it safe
  kAlways,     // "always": even if the table warns
};
FinalizeChoice ParseFinalizeChoice(std::string_view text);

// One row per version from which a rule holds, oldest first.
struct FinalizeRow {
  enum When { kNever, kWithoutGraphs, kAlways };
  uint32_t since = 0;  // cuptiGetVersion
  When when = kNever;
  std::string_view reason;  // why not, or why not with graphs
  std::string_view source;
};
const FinalizeRow& FinalizeRowOf(uint32_t version);

struct FinalizeDecision {
  bool finalize = false;
  // Why CUPTI stays attached, for people; empty: it does not, or the user wants that.
  std::string reason;
};
// Decides whether to finalize CUPTI. `graphs_seen`: some capture of this process has seen a CUDA
// graph. Graphs that were never replayed during a capture cannot be detected.
FinalizeDecision DecideFinalize(uint32_t version, bool graphs_seen, FinalizeChoice choice);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_FINALIZE_POLICY_H_
