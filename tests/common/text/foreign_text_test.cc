// SPDX-License-Identifier: Apache-2.0
#include "common/text/foreign_text.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace jobscope {
namespace {

TEST(OneLine, LeavesTextAlone) {
  for (const char* text : {"", "plain", "ünïcode, 日本語, 🚀", "a \"quoted\" one\\"}) {
    EXPECT_EQ(OneLine(text, 100), text);
  }
}

TEST(OneLine, NothingMovesACursor) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"two\nlines\r\n", "two lines  "},
      {"\x1b[31mred\x1b[0m", " [31mred [0m"},
      {"\x07\x7f", "  "},
      {"\xc2\x9b"
       "31m",
       " 31m"},  // CSI as one character
      {"\x9b"
       "31m",
       "?31m"},  // ... and as a byte
      {"\xe2\x80\xae"
       "gnp.exe",
       " gnp.exe"},  // turns the direction of writing
      {"\xe2\x81\xa6x", " x"},
      {"\xe2\x80\xa8", " "},  // line separator
  };
  for (const auto& [text, line] : cases) EXPECT_EQ(OneLine(text, 100), line);
}

TEST(OneLine, BytesThatAreNoUtf8AreMarked) {
  EXPECT_EQ(OneLine("\xff\xfe", 100), "??");
  EXPECT_EQ(OneLine("\xc3", 100), "?");                 // cut off
  EXPECT_EQ(OneLine("\xc0\x9b", 100), "??");            // overlong
  EXPECT_EQ(OneLine("\xe0\x80\x8a", 100), "???");       // overlong
  EXPECT_EQ(OneLine("\xed\xa0\x80", 100), "???");       // a surrogate
  EXPECT_EQ(OneLine("\xf4\x90\x80\x80", 100), "????");  // beyond the last character
  EXPECT_EQ(OneLine("\xe4\xb8z", 100), "??z");
}

TEST(OneLine, IsCutBetweenCharacters) {
  EXPECT_EQ(OneLine("abcdef", 6), "abcdef");
  EXPECT_EQ(OneLine("abcdefg", 6), "abcdef...");
  EXPECT_EQ(OneLine("aäää", 4), "aä...");
  EXPECT_EQ(CutText("aäää", 4), "aä...");
  EXPECT_EQ(CutText("aäää", 7), "aäää");
  EXPECT_EQ(CutText("a\nb", 3), "a\nb");
  EXPECT_EQ(CutText("\x80\x80\x80", 2), "\x80\x80...");
}

TEST(EscapeControls, NothingMovesACursorAndTheTextStaysTheSame) {
  EXPECT_EQ(EscapeControls("{\n  \"a\": \"\\u001b, ünïcode, 🚀\"\n}"),
            "{\n  \"a\": \"\\u001b, ünïcode, 🚀\"\n}");
  EXPECT_EQ(EscapeControls("\"\x7f\xc2\x9b"
                           "31m\xe2\x80\xae"
                           "x\xe2\x81\xa6\""),
            "\"\\u007f\\u009b31m\\u202ex\\u2066\"");
}

TEST(OneLineInColumns, KeepsTheBeginAndTheEnd) {
  EXPECT_EQ(OneLineInColumns("abcdefghijklmnop", 10), "abcd..mnop");
  EXPECT_EQ(OneLineInColumns("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(OneLineInColumns("\xc3\xa4\xc3\xb6\xc3\xbc\xc3\x9f"
                             "cdefg",
                             6),
            "\xc3\xa4\xc3\xb6..fg");
}

TEST(OneLineInColumns, NoControlCharacterReachesATerminal) {
  EXPECT_EQ(OneLineInColumns("\x1b[31mred\x1b[0m\r\n\x7f", 40), " [31mred [0m   ");
  EXPECT_EQ(OneLineInColumns("a\xc2\x9b"
                             "31m\xff",
                             40),
            "a 31m?");  // CSI as one character
}

}  // namespace
}  // namespace jobscope
