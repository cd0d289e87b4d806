// SPDX-License-Identifier: Apache-2.0
#include "common/options/framework_choice.h"

#include <gtest/gtest.h>

#include <string>

namespace jobscope {
namespace {

TEST(FrameworkChoiceTest, ByDefaultAllTakePart) {
  for (const char* text : {"", "auto"}) {
    const auto choice = FrameworkChoice::Parse(text);
    ASSERT_TRUE(choice.ok()) << text;
    EXPECT_TRUE(choice->Takes("torch"));
    EXPECT_TRUE(choice->names().empty());
    EXPECT_EQ(choice->text(), "auto");
  }
  EXPECT_TRUE(FrameworkChoice().Takes("jax"));
}

TEST(FrameworkChoiceTest, NoneTakesNone) {
  const auto choice = FrameworkChoice::Parse("none");
  ASSERT_TRUE(choice.ok());
  EXPECT_FALSE(choice->Takes("torch"));
  EXPECT_FALSE(choice->Takes("none"));
  EXPECT_EQ(choice->text(), "none");
}

TEST(FrameworkChoiceTest, NamesAreTakenOneByOne) {
  const auto choice = FrameworkChoice::Parse("torch,my-own_2,torch");
  ASSERT_TRUE(choice.ok());
  EXPECT_TRUE(choice->Takes("torch"));
  EXPECT_TRUE(choice->Takes("my-own_2"));
  EXPECT_FALSE(choice->Takes("jax"));
  EXPECT_EQ(choice->text(), "torch,my-own_2");
}

TEST(FrameworkChoiceTest, WhatIsNoListSaysWhichWord) {
  for (const char* text :
       {",", "torch,", "Torch", "torch jax", "auto,torch", "none,jax", "t\x01"}) {
    const auto choice = FrameworkChoice::Parse(text);
    ASSERT_FALSE(choice.ok()) << text;
    EXPECT_NE(choice.status().message().find("give auto, none, or names"), std::string::npos)
        << choice.status();
  }
  EXPECT_NE(FrameworkChoice::Parse("jax,Torch").status().message().find("\"Torch\""),
            std::string::npos);
}

TEST(FrameworkChoiceTest, ALongWordIsCutAndPrintable) {
  const std::string shown = "\"n?" + std::string(98, 'n') + "...\" is not a name";
  EXPECT_NE(FrameworkChoice::Parse("n\x80" + std::string(500, 'n')).status().message().find(shown),
            std::string::npos);
}

TEST(FrameworkChoiceTest, ListsAreBounded) {
  std::string names = "n0";
  for (int i = 1; i < 16; ++i) names += ",n" + std::to_string(i);
  EXPECT_TRUE(FrameworkChoice::Parse(names).ok());
  EXPECT_FALSE(FrameworkChoice::Parse(names + ",n16").ok());
  EXPECT_FALSE(FrameworkChoice::Parse(std::string(65, 'n')).ok());
  EXPECT_FALSE(FrameworkChoice::Parse(std::string(1 << 20, ',')).ok());
}

}  // namespace
}  // namespace jobscope
