// SPDX-License-Identifier: Apache-2.0
#include "common/net/resolver.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace jobscope {
namespace {

TEST(ResolverTest, TheSystemKnowsLocalhost) {
  const absl::StatusOr<std::vector<std::string>> addresses = ResolveWithSystem("localhost");
  ASSERT_TRUE(addresses.ok()) << addresses.status();
  EXPECT_EQ(addresses->size(), 1u);
}

}  // namespace
}  // namespace jobscope
