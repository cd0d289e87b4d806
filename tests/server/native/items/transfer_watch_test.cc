// SPDX-License-Identifier: Apache-2.0
#include "server/native/items/transfer_watch.h"

#include <gtest/gtest.h>

namespace jobscope {
namespace {

TEST(TransferWatchTest, CountsFromTheLastNewsAndFromTheEndOfTheRecording) {
  TransferWatch watch(/*acknowledged=*/3);
  watch.OnSent(100);
  EXPECT_EQ(watch.Stalled(150), absl::Nanoseconds(50));
  watch.OnOver(200);
  watch.OnOver(250);
  EXPECT_EQ(watch.Stalled(300), absl::Nanoseconds(100));
  watch.OnAcknowledged(3, 400);  // which is known
  EXPECT_EQ(watch.Stalled(500), absl::Nanoseconds(300));
  EXPECT_EQ(watch.Silent(500), absl::Nanoseconds(100));
  watch.OnAcknowledged(4, 600);
  EXPECT_EQ(watch.Stalled(600), absl::ZeroDuration());
}

}  // namespace
}  // namespace jobscope
