// SPDX-License-Identifier: Apache-2.0
#include "common/text/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include "tensorflow/xplane.pb.h"
#include "tests/silent_protobuf.h"

namespace jobscope {
namespace {

std::string Fix(std::string_view text) {
  std::string scratch;
  return std::string(ToUtf8(text, &scratch));
}

TEST(Utf8Test, TakesWellFormedTextAsItIs) {
  for (const char* text : {"", "a", "eight by", "nine byte", "gr\u00fc\u00dfe",
                           "\u65e5\u672c\u8a9e", "\U0001f600 at the end \U0010ffff"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
    std::string scratch;
    EXPECT_EQ(ToUtf8(text, &scratch).data(), text) << "copied without need";
  }
}

TEST(Utf8Test, ReplacesEachOffendingByte) {
  EXPECT_EQ(Fix("a\xff"
                "b"),
            "a?b");
  EXPECT_EQ(Fix("\xc3"), "?");
  EXPECT_EQ(Fix("\xc0\x80"), "??");            // overlong
  EXPECT_EQ(Fix("\xed\xa0\x80"), "???");       // surrogate
  EXPECT_EQ(Fix("\xf4\x90\x80\x80"), "????");  // above U+10FFFF
  EXPECT_EQ(Fix("\xe2\x82"
                "abcdefgh"),
            "??abcdefgh");
  EXPECT_EQ(Fix("12345678\x80"
                "12345678"),
            "12345678?12345678");
}

TEST(Utf8Test, AgreesWithProtobuf) {
  const SilentProtobuf silent;
  std::mt19937 random(7);
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    const size_t size = random() % 12;
    while (text.size() < size) {
      // Lead and continuation bytes more often than chance gives.
      constexpr unsigned char kBytes[] = {0x41, 0x80, 0xbf, 0xc2, 0xe0, 0xa0, 0xed,
                                          0x9f, 0xf0, 0x90, 0xf4, 0x8f, 0xc1, 0xf5};
      text.push_back(static_cast<char>(random() % 4 == 0 ? random() % 256
                                                         : kBytes[random() % sizeof(kBytes)]));
    }
    tensorflow::profiler::XStatMetadata message;
    const std::string wire = std::string("\x12") + static_cast<char>(text.size()) + text;
    EXPECT_EQ(IsUtf8(text), message.ParseFromString(wire)) << i;
    EXPECT_TRUE(IsUtf8(Fix(text))) << i;
    EXPECT_EQ(Fix(text).size(), text.size());
  }
}

TEST(Utf8Test, EncodesCharacters) {
  const auto encoded = [](uint32_t character) {
    char bytes[4];
    return std::string(bytes, EncodeUtf8(character, bytes));
  };
  for (const auto& [character, text] : std::map<uint32_t, std::string>{
           {0, std::string(1, '\0')},
           {0x7f, "\x7f"},
           {0x80, "\xc2\x80"},
           {0x7ff, "\xdf\xbf"},
           {0x800, "\xe0\xa0\x80"},
           {0xd7ff, "\xed\x9f\xbf"},
           {0xe000, "\xee\x80\x80"},
           {0xffff, "\xef\xbf\xbf"},
           {0x10000, "\xf0\x90\x80\x80"},
           {0x10ffff, "\xf4\x8f\xbf\xbf"},
       }) {
    EXPECT_EQ(encoded(character), text) << character;
    EXPECT_TRUE(IsUtf8(text)) << character;
  }
  for (const uint32_t none : {0xd800u, 0xdfffu, 0x110000u, UINT32_MAX}) {
    EXPECT_EQ(encoded(none), "?") << none;
  }
}

TEST(Utf8Test, CountsCharacters) {
  EXPECT_EQ(Utf8Characters(""), 0u);
  EXPECT_EQ(Utf8Characters("abc"), 3u);
  EXPECT_EQ(Utf8Characters("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), 4u);
}

TEST(Utf8Test, CutsAtCharactersAndRepairs) {
  EXPECT_EQ(CleanUtf8("abcdef", 3), "abc");
  EXPECT_EQ(CleanUtf8("a\xc3\xa4", 2), "a");
  EXPECT_EQ(CleanUtf8("a\xff", 9), "a?");
  EXPECT_EQ(Utf8Prefix("a\xe2\x82\xac", 3), "a");
  EXPECT_EQ(Utf8Prefix("a\xe2\x82\xac", 4), "a\xe2\x82\xac");
  EXPECT_EQ(Utf8Prefix("\xe2\x82\xac", 2), "");
  EXPECT_EQ(Utf8Prefix("a\xf0\x9f\x98\x80", 4), "a");
  // It would leave nothing of a name.
  EXPECT_EQ(Utf8Prefix("\x8b\x8b\x8b\x8b\x8b\x8b", 5), "\x8b\x8b\x8b\x8b\x8b");
}

}  // namespace
}  // namespace jobscope
