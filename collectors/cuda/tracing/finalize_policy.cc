// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/finalize_policy.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {
namespace {

// Updates that share a version number (12.1 and 12.1 update 1, 12.4 and 12.4 update 1) count as the
// worse of the two.
constexpr std::array<FinalizeRow, 5> kRows = {{
    {0, FinalizeRow::kNever, "it crashes processes before CUDA 12.1 update 1",
     "CUPTI release notes, 12.1 update 1"},
    {kCupti12_2, FinalizeRow::kWithoutGraphs,
     "it crashes processes that use CUDA graphs before CUDA 12.6, and can block them for ever "
     "before CUDA 13.0 update 1",
     "CUPTI release notes, 12.4 update 1; pytorch/pytorch#112507, #146604; LeftKinds"},
    {kCupti13_0, FinalizeRow::kNever,
     "CUDA 13.0 may deadlock when tracing is switched off and on again, fixed in update 1",
     "CUPTI release notes, 13.0 update 1"},
    {kCupti13_0_1, FinalizeRow::kAlways, "", "pytorch/pytorch#150957; pytorch/kineto#1264"},
    {kCupti14_0, FinalizeRow::kNever, "this version is untested", ""},
}};

}  // namespace

FinalizeChoice ParseFinalizeChoice(std::string_view text) {
  if (text == "auto") return FinalizeChoice::kByVersion;
  return text == "always" ? FinalizeChoice::kAlways : FinalizeChoice::kNever;
}

const FinalizeRow& FinalizeRowOf(uint32_t version) {
  const FinalizeRow* found = kRows.data();
  for (const FinalizeRow& row : kRows) {
    if (row.since <= version) found = &row;
  }
  return *found;
}

FinalizeDecision DecideFinalize(uint32_t version, bool graphs_seen, FinalizeChoice choice) {
  if (choice != FinalizeChoice::kByVersion) return {choice == FinalizeChoice::kAlways, ""};
  const FinalizeRow& row = FinalizeRowOf(version);
  if (row.when == FinalizeRow::kAlways) return {true, ""};
  if (row.when == FinalizeRow::kWithoutGraphs && !graphs_seen) return {true, ""};
  return {false, absl::StrCat("cuptiFinalize is not called: ", std::string(row.reason))};
}

}  // namespace jobscope::cuda
