// SPDX-License-Identifier: Apache-2.0
#include "common/text/utc_text.h"

#include <gtest/gtest.h>
#include <time.h>

#include <cstdint>
#include <string>

namespace jobscope {
namespace {

std::string Utc(int64_t unix_ms) {
  char text[kUtcTextBytes];
  FormatUtc(unix_ms, text);
  return text;
}

TEST(FormatUtc, WritesTheDateOfTheCLibrary) {
  // Two days in each quarter of a year, over more than 400 years.
  for (int64_t day = 0; day < 150'000; day += 45 - day % 2) {
    const time_t seconds = day * 86'400 + 23 * 3'600 + 59 * 60 + 58;
    tm date = {};
    ASSERT_NE(gmtime_r(&seconds, &date), nullptr);
    char expected[40];
    ASSERT_NE(strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S.007Z", &date), 0u);
    ASSERT_EQ(Utc(int64_t{seconds} * 1000 + 7), expected);
  }
}

TEST(FormatUtc, KnowsLeapYears) {
  EXPECT_EQ(Utc(0), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(Utc(951'782'400'123), "2000-02-29T00:00:00.123Z");
  EXPECT_EQ(Utc(4'107'542'399'999), "2100-02-28T23:59:59.999Z");
  EXPECT_EQ(Utc(4'107'542'400'000), "2100-03-01T00:00:00.000Z");
}

TEST(FormatUtc, FitsWhateverTheClockSays) {
  EXPECT_EQ(Utc(-1), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(Utc(INT64_MAX).size(), 24u);
}

}  // namespace
}  // namespace jobscope
