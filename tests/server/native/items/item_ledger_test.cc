// SPDX-License-Identifier: Apache-2.0
#include "server/native/items/item_ledger.h"

#include <gtest/gtest.h>

namespace jobscope {
namespace {

TEST(ItemLedgerTest, KnowsWhatTheClientLacks) {
  ItemLedger ledger;
  bool news = false;
  EXPECT_TRUE(absl::IsInvalidArgument(ledger.Acknowledge(1, &news)));
  ledger.OnSent(5);
  ledger.OnSent(3);  // of a stream that was taken over
  EXPECT_TRUE(ledger.Acknowledge(4, &news).ok());
  EXPECT_TRUE(news);
  EXPECT_TRUE(ledger.Acknowledge(2, &news).ok());
  EXPECT_FALSE(news);
  EXPECT_EQ(ledger.acknowledged(), 4u);
  EXPECT_EQ(ledger.outstanding(), 0u);
  ledger.SetLast(7);
  EXPECT_EQ(ledger.outstanding(), 3u);
  EXPECT_TRUE(absl::IsFailedPrecondition(ledger.Resume(4)));
  EXPECT_TRUE(absl::IsInvalidArgument(ledger.Resume(7)));
  EXPECT_TRUE(ledger.Resume(6).ok());
  EXPECT_EQ(ledger.outstanding(), 2u);
  ledger.AcknowledgeAll();
  EXPECT_EQ(ledger.outstanding(), 0u);
}

}  // namespace
}  // namespace jobscope
