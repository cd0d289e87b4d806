// SPDX-License-Identifier: Apache-2.0
#include "analysis/text/text_table.h"

#include <gtest/gtest.h>

namespace jobscope::analysis {
namespace {

TEST(TextTableTest, TablesAlignAndFit) {
  TextTable table({{"NAME", 8}, {"MS"}});
  table.Add({"a", "1.0"});
  table.Add({"a_very_long_name", "12.25"});
  EXPECT_EQ(table.Text(),
            "NAME         MS\n"
            "a           1.0\n"
            "a_v..ame  12.25\n");
}

TEST(TextTableTest, TheFirstColumnShrinksUntilTheLineFits) {
  TextTable table({{"NAME", 60}, {"COUNT"}, {"WHERE", 30}});
  const std::string figure(20, '9');
  table.Add({std::string(30, 'a') + std::string(30, 'z'), figure, std::string(30, 'w')});
  // 46 + 2 + 20 + 2 + 30
  EXPECT_EQ(table.Text(), "NAME" + std::string(42 + 2 + 15, ' ') + "COUNT  WHERE\n" +
                              std::string(22, 'a') + ".." + std::string(22, 'z') + "  " + figure +
                              "  " + std::string(30, 'w') + "\n");
}

}  // namespace
}  // namespace jobscope::analysis
