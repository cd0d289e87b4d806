// SPDX-License-Identifier: Apache-2.0
#include "common/net/host_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The addresses, or the error's text.
std::vector<std::string> Expand(const std::string& entry) {
  absl::StatusOr<std::vector<std::string>> addresses = ExpandHostList(entry);
  if (!addresses.ok()) return {absl::StrCat("error: ", std::string(addresses.status().message()))};
  return *std::move(addresses);
}

TEST(HostListTest, EachBracketIsExpanded) {
  EXPECT_THAT(Expand("n[08-11]:1"), ElementsAre("n08:1", "n09:1", "n10:1", "n11:1"));
  EXPECT_THAT(Expand("n[1-3,7]:6009"), ElementsAre("n1:6009", "n2:6009", "n3:6009", "n7:6009"));
  EXPECT_THAT(Expand("r[1-2]-n[5,6].lan:1"),
              ElementsAre("r1-n5.lan:1", "r1-n6.lan:1", "r2-n5.lan:1", "r2-n6.lan:1"));
  EXPECT_THAT(Expand("h:[6009-6011]"), ElementsAre("h:6009", "h:6010", "h:6011"));
  EXPECT_THAT(Expand("[1-2].lan:1"), ElementsAre("1.lan:1", "2.lan:1"));
  EXPECT_EQ(Expand("n[1-16384]:1").size(), 16384u);
}

TEST(HostListTest, WhatHasNoRangeIsKept) {
  EXPECT_THAT(Expand("h:1"), ElementsAre("h:1"));
  EXPECT_THAT(Expand("[::1]:1"), ElementsAre("[::1]:1"));
  EXPECT_THAT(Expand("n[1-2:1"), ElementsAre("n[1-2:1"));
}

TEST(HostListTest, BadRanges) {
  EXPECT_THAT(Expand("n[3-1]:1"),
              ElementsAre(AllOf(HasSubstr("n[3-1]:1"), HasSubstr("backwards"))));
  EXPECT_THAT(Expand("n[a-b]:1"), ElementsAre(HasSubstr("'a-b' is not a range")));
  EXPECT_THAT(Expand("n[]:1"), ElementsAre(HasSubstr("is not a range")));
  EXPECT_THAT(Expand("n[1-]:1"), ElementsAre(HasSubstr("is not a range")));
  EXPECT_THAT(Expand("n[1-9999999999]:1"), ElementsAre(HasSubstr("is not a range")));
  EXPECT_THAT(Expand("n[1-99999]:1"), ElementsAre(HasSubstr("more than 16384")));
  EXPECT_THAT(Expand("n[1-200]-[1-200]:1"), ElementsAre(HasSubstr("more than 16384")));
  EXPECT_THAT(Expand(std::string(5000, 'h') + ":1"), ElementsAre(HasSubstr("longer than 4096")));
}

}  // namespace
}  // namespace jobscope
