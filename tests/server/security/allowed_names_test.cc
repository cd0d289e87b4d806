// SPDX-License-Identifier: Apache-2.0
#include "server/security/allowed_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace jobscope {
namespace {

using ::testing::HasSubstr;

TEST(AllowedNamesTest, ANameCountsInWhole) {
  EXPECT_TRUE(AllowedNames().any());
  EXPECT_TRUE(AllowedNames().Accepts("alice"));
  const AllowedNames names = *AllowedNames::Parse("alice, bob@example.com ,*.example.com");
  EXPECT_FALSE(names.any());
  EXPECT_TRUE(names.Accepts("alice"));
  EXPECT_TRUE(names.Accepts("bob@example.com"));
  EXPECT_TRUE(names.Accepts("*.example.com"));
  for (const std::string& other :
       {std::string(), std::string("Alice"), std::string("alice "), std::string("alic"),
        std::string("alice,bob@example.com"), std::string("carol.example.com"),
        std::string("alice\0.example.org", 18)}) {
    EXPECT_FALSE(names.Accepts(other)) << other;
  }
}

TEST(AllowedNamesTest, Limits) {
  EXPECT_TRUE(AllowedNames::Parse(std::string(256, 'a')).ok());
  std::string many = "a";
  for (int i = 1; i < 256; ++i) many += ",a";
  EXPECT_TRUE(AllowedNames::Parse(many).ok());
  for (const auto& [text, why] : {std::pair<std::string, const char*>{"", "an empty name"},
                                  {"alice, ,bob", "an empty name"},
                                  {std::string(257, 'a'), "a name of more than 256 bytes"},
                                  {many + ",a", "holds 257 names"}}) {
    const auto names = AllowedNames::Parse(text);
    EXPECT_EQ(names.status().code(), absl::StatusCode::kInvalidArgument) << why;
    EXPECT_THAT(std::string(names.status().message()), HasSubstr(why));
  }
}

}  // namespace
}  // namespace jobscope
