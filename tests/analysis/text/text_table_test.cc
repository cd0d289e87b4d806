// SPDX-License-Identifier: Apache-2.0
#include "analysis/text/text_table.h"

#include <gtest/gtest.h>

namespace jobscope::analysis {
namespace {

TEST(TextTableTest, TablesAlignAndFit) {
  TextTable table({{"NAME", 8, false}, {"MS", 6}});
  table.Add({"a", "1.0"});
  table.Add({"a_very_long_name", "12.25"});
  EXPECT_EQ(table.Text(),
            "NAME         MS\n"
            "a           1.0\n"
            "a_v..ame  12.25\n");
}

}  // namespace
}  // namespace jobscope::analysis
