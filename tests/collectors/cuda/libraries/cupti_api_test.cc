// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/libraries/cupti_api.h"

#include <gtest/gtest.h>

namespace jobscope::cuda {
namespace {

TEST(VersionTest, NumbersBecomeReleases) {
  EXPECT_EQ(CuptiVersionText(13), "11.0");
  EXPECT_EQ(CuptiVersionText(28), "12.9.1");
  EXPECT_EQ(CuptiVersionText(130000), "13.0");
  EXPECT_EQ(CuptiVersionText(130301), "13.3.1");
  EXPECT_EQ(CuptiVersionText(25), "of API version 25");
  EXPECT_EQ(CuptiMajor(18), 11u);
  EXPECT_EQ(CuptiMajor(19), 12u);
  EXPECT_EQ(CuptiMajor(130001), 13u);
  EXPECT_EQ(CuptiMajor(12), 0u);
}

}  // namespace
}  // namespace jobscope::cuda
