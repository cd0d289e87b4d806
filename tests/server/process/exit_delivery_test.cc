// SPDX-License-Identifier: Apache-2.0
#include "server/process/exit_delivery.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace jobscope {
namespace {

void ThrowAtExit(absl::Time /*deadline*/) { throw std::bad_alloc(); }
void WriteDelivered(absl::Time /*deadline*/) { std::fputs("delivered, ", stderr); }
void WriteCleanedUp(absl::Time /*deadline*/) { std::fputs("cleaned up", stderr); }

TEST(ExitDeliveryDeathTest, AFunctionThatFindsNoMemoryEndsNeitherTheProcessNorTheOthers) {
  EXPECT_EXIT(
      {
        DeliverAtExit(&ThrowAtExit, &ThrowAtExit);
        DeliverAtExit(&WriteDelivered, &WriteCleanedUp);
        std::exit(7);
      },
      ::testing::ExitedWithCode(7), "delivered, (.|\n)*cleaned up");
}

}  // namespace
}  // namespace jobscope
