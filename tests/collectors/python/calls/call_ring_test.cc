// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/calls/call_ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace jobscope::python {
namespace {

CallRecord RecordWith(uint64_t begin_ticks) { return {begin_ticks, begin_ticks + 1, 0, 0, 0, 0}; }

TEST(CallRingTest, AFullRingTakesNothingUntilItIsRead) {
  CallRing ring{std::vector<CallRecord>(CallRing::kRecords)};
  for (uint64_t i = 0; i < CallRing::kRecords; ++i) ASSERT_TRUE(ring.Add(RecordWith(i)));
  EXPECT_FALSE(ring.Add(RecordWith(CallRing::kRecords)));
  std::vector<CallRecord> taken(CallRing::kRecords + 1);
  ASSERT_EQ(ring.Take(taken.data(), 10), 10u);
  EXPECT_EQ(taken[9].begin_ticks, 9u);
  EXPECT_TRUE(ring.Add(RecordWith(CallRing::kRecords)));
  // The rest, over the end of the memory.
  ASSERT_EQ(ring.Take(taken.data(), taken.size()), CallRing::kRecords - 9);
  for (uint64_t i = 0; i < CallRing::kRecords - 9; ++i) ASSERT_EQ(taken[i].begin_ticks, 10 + i);
  EXPECT_EQ(ring.Take(taken.data(), taken.size()), 0u);
}

}  // namespace
}  // namespace jobscope::python
