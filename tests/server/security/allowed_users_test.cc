// SPDX-License-Identifier: Apache-2.0
#include "server/security/allowed_users.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace jobscope {
namespace {

using ::testing::HasSubstr;

TEST(AllowedUsersTest, OwnUserAndRootByDefault) {
  const AllowedUsers users = *AllowedUsers::Parse("");
  EXPECT_TRUE(users.Allows(1000, 1000));
  EXPECT_TRUE(users.Allows(0, 1000));
  EXPECT_FALSE(users.Allows(1001, 1000));
  EXPECT_FALSE(users.Allows(1001, 0));
  EXPECT_FALSE(users.others());
}

TEST(AllowedUsersTest, OthersAreNamedOrAllAre) {
  const AllowedUsers some = *AllowedUsers::Parse(" 1001, 1002");
  EXPECT_TRUE(some.Allows(1001, 1000));
  EXPECT_TRUE(some.Allows(1002, 1000));
  EXPECT_TRUE(some.Allows(0, 1000));
  EXPECT_FALSE(some.Allows(1003, 1000));
  EXPECT_FALSE(some.any());
  EXPECT_EQ(some.Text(1000), "user 1000 (its own), users 1001, 1002 and root");
  EXPECT_TRUE(AllowedUsers::Parse("any")->Allows(4711, 1000));
  for (const char* bad : {"alice", "1001,", "-1", "4294967295", "4294967296", "any,1001", "+5"}) {
    const auto users = AllowedUsers::Parse(bad);
    EXPECT_EQ(users.status().code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(std::string(users.status().message()), HasSubstr("not a user id"));
  }
}

}  // namespace
}  // namespace jobscope
