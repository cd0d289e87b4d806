// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/libraries/result_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace jobscope::cuda {
namespace {

using ::testing::HasSubstr;

TEST(ResultTextTest, EveryResultHasATextAndMostARemedy) {
  for (int result = 0; result <= 46; ++result) {
    const ResultText* const text = FindResultText(result);
    ASSERT_NE(text, nullptr) << result;
    EXPECT_EQ(text->result, result);
    EXPECT_FALSE(text->name.empty());
    EXPECT_FALSE(text->text.empty());
  }
  ASSERT_NE(FindResultText(999), nullptr);
  EXPECT_EQ(FindResultText(12345), nullptr);
}

TEST(ResultTextTest, NamesTheCulpritAndTheRemedy) {
  FailureContext context;
  context.call = "cuptiActivityEnable";
  context.cupti_version = 22;
  context.driver_version = 12020;
  const std::string text = FailureText(35, context);
  EXPECT_THAT(text, HasSubstr("NVreg_RestrictProfilingToAdminUsers=0"));
  EXPECT_THAT(text, HasSubstr("RmProfilingAdminOnly"));
  EXPECT_THAT(text, HasSubstr("cuptiActivityEnable: 35 INSUFFICIENT_PRIVILEGES"));
  EXPECT_THAT(text, HasSubstr("CUPTI 12.4"));
  EXPECT_THAT(text, HasSubstr("driver for CUDA 12.2"));
  context.old_owner = "nsys";
  EXPECT_THAT(FailureText(39, context), HasSubstr("already being profiled by nsys"));
  EXPECT_THAT(FailureText(12345, context), HasSubstr("12345"));
}

}  // namespace
}  // namespace jobscope::cuda
