// SPDX-License-Identifier: Apache-2.0
#include "client/terminal/columns.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace jobscope {
namespace {

TEST(ColumnsTest, TheyCountCharacters) {
  EXPECT_EQ(AlignColumns({{"NAME", "N"}, {"z\xc3\xbcrich", "1"}, {"berlin", "2"}}),
            "NAME    N\nz\xc3\xbcrich  1\nberlin  2\n");
}

TEST(ColumnsTest, ThoseWithAHeadingAloneAreOmitted) {
  EXPECT_EQ(AlignColumns({{"NAME", "RANK", "N"}, {"a", "", "1"}}), "NAME  N\na     1\n");
}

TEST(ColumnsTest, NumbersAreGrouped) {
  EXPECT_EQ(Grouped(0), "0");
  EXPECT_EQ(Grouped(999), "999");
  EXPECT_EQ(Grouped(1234567), "1,234,567");
}

TEST(ColumnsTest, BytesHaveUnits) {
  EXPECT_EQ(ByteCount(0), "0");
  EXPECT_EQ(ByteCount(512), "512 B");
  EXPECT_EQ(ByteCount(1536), "1.5 KiB");
  EXPECT_EQ(ByteCount(uint64_t{3} << 30), "3.0 GiB");
}

}  // namespace
}  // namespace jobscope
