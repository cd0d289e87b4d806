// SPDX-License-Identifier: Apache-2.0
#include "analysis/text/text.h"

#include <gtest/gtest.h>

#include "analysis/text/text_table.h"

namespace jobscope::analysis {
namespace {

TEST(TextTest, CutsAtCharactersAndRepairsUtf8) {
  EXPECT_EQ(CutText("abcdef", 3), "abc");
  EXPECT_EQ(CutText("a\xc3\xa4", 2), "a");
  EXPECT_EQ(CutText("a\xff", 9), "a?");
}

TEST(TextTest, NoControlCharacterReachesATerminal) {
  EXPECT_EQ(TerminalText("\x1b[31mred\x1b[0m\r\n\x7f", 40), "?[31mred?[0m???");
  EXPECT_EQ(TerminalText("a\xc2\x9b"
                         "31m",
                         40),
            "a?31m");  // CSI as one character
}

TEST(TextTest, LongTextIsCutInTheMiddle) {
  EXPECT_EQ(TerminalText("abcdefghijklmnop", 10), "abcd..mnop");
  EXPECT_EQ(TerminalText("abcdefghij", 10), "abcdefghij");
}

TEST(TextTest, TablesAlignAndFit) {
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
