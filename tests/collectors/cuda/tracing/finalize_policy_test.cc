// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/finalize_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace jobscope::cuda {
namespace {

using ::testing::HasSubstr;

TEST(FinalizePolicyTest, EveryRowHasItsReasonAndItsSource) {
  for (const uint32_t version : {0u, 19u, 20u, 130000u}) {
    EXPECT_FALSE(FinalizeRowOf(version).reason.empty()) << version;
    EXPECT_FALSE(FinalizeRowOf(version).source.empty()) << version;
  }
  EXPECT_THAT(DecideFinalize(22, true, FinalizeChoice::kByVersion).reason, HasSubstr("12.6"));
  EXPECT_EQ(DecideFinalize(22, true, FinalizeChoice::kNever).reason, "");
}

}  // namespace
}  // namespace jobscope::cuda
