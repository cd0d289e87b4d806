// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/pending_events.h"

#include <gtest/gtest.h>

namespace jobscope {
namespace {

TEST(PendingEventsTest, OneCallerHandlesTheEventsOfAll) {
  PendingEvents pending;
  EXPECT_TRUE(pending.Add(1));
  EXPECT_FALSE(pending.Add(2));
  EXPECT_FALSE(pending.AddForLater(4));
  EXPECT_EQ(pending.Take(), 7u);
  EXPECT_FALSE(pending.Add(1)) << "the first caller has not seen that none are left";
  EXPECT_EQ(pending.Take(), 1u);
  EXPECT_EQ(pending.Take(), 0u);
  EXPECT_TRUE(pending.Add(1));
}

TEST(PendingEventsTest, OneCallerSchedulesTheThreadForAll) {
  PendingEvents pending;
  EXPECT_TRUE(pending.AddForLater(1));
  EXPECT_FALSE(pending.AddForLater(2));
  EXPECT_TRUE(pending.Add(0));
  EXPECT_EQ(pending.Take(), 3u);
  EXPECT_EQ(pending.Take(), 0u);
  EXPECT_TRUE(pending.AddForLater(4));
}

TEST(PendingEventsTest, EventsWaitForTheNextCallerIfNoThreadCouldBeScheduled) {
  PendingEvents pending;
  EXPECT_TRUE(pending.AddForLater(1));
  pending.NotScheduled();
  EXPECT_TRUE(pending.AddForLater(2));
  EXPECT_TRUE(pending.Add(0));
  EXPECT_EQ(pending.Take(), 3u);
}

}  // namespace
}  // namespace jobscope
