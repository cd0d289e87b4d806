// SPDX-License-Identifier: Apache-2.0
//
// Whether CUPTI is taken out of the process after a capture.
#ifndef COLLECTORS_CUDA_TRACING_FINALIZE_POLICY_H_
#define COLLECTORS_CUDA_TRACING_FINALIZE_POLICY_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace jobscope::cuda {

// What the user wants; JOBSCOPE_CUPTI_FINALIZE. It has not been tried on a GPU, and what goes wrong
// in it goes wrong on an application thread: nobody gets it who has not asked.
enum class FinalizeChoice {
  kNever,      // whatever is not one of the others
  kByVersion,  // "auto": where the table calls it safe
  kAlways,     // "always": also where the table warns
};
FinalizeChoice ParseFinalizeChoice(std::string_view text);

// One row per version from which on something else holds, oldest first.
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
  // Why CUPTI stays attached, for people; empty: it does not, or the user wanted that.
  std::string reason;
};
// `graphs_seen`: some capture of this process has seen a CUDA graph. That a graph exists which was
// never replayed during a capture, nobody can tell.
FinalizeDecision DecideFinalize(uint32_t version, bool graphs_seen, FinalizeChoice choice);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_FINALIZE_POLICY_H_
