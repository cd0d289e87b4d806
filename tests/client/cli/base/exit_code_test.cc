// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/exit_code.h"

#include <gtest/gtest.h>

namespace jobscope {
namespace {

TEST(ExitCode, SaysWhetherAllSomeOrNoneDelivered) {
  EXPECT_EQ(ExitCode(3, 3), 0);
  EXPECT_EQ(ExitCode(2, 3), 3);
  EXPECT_EQ(ExitCode(0, 3), 4);
}

}  // namespace
}  // namespace jobscope
