// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/loss_cause.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace jobscope {
namespace {

using testing::ElementsAreArray;

// Summaries and manifests list causes in the enum's order, which people read as an alphabetic one.
TEST(LossCauseTest, NamesAreInOrder) {
  for (size_t i = 1; i < kLossCauses; ++i) {
    EXPECT_LT(std::string(Name(static_cast<LossCause>(i - 1))), Name(static_cast<LossCause>(i)));
  }
}

TEST(LossCauseTest, TheDocumentHasARowForEach) {
  std::vector<std::string> names;
  for (size_t i = 0; i < kLossCauses; ++i) {
    names.emplace_back(Name(static_cast<LossCause>(i)));
    EXPECT_NE(std::string(Explanation(static_cast<LossCause>(i))), "") << names.back();
  }
  std::ifstream document(TRACE_FORMAT);
  std::vector<std::string> rows;
  bool in_losses = false;
  for (std::string line; std::getline(document, line);) {
    if (line.rfind("## ", 0) == 0) in_losses = line.find("Losses") != std::string::npos;
    if (in_losses && line.rfind("| `", 0) == 0)
      rows.push_back(line.substr(3, line.find('`', 3) - 3));
  }
  EXPECT_THAT(rows, ElementsAreArray(names)) << TRACE_FORMAT;
}

TEST(LossCauseTest, CausesWithoutLossesAreLeftOut) {
  v1::Loss loss;
  Append({{LossCause::kClock, 0}, {LossCause::kNoRing, 3}}, loss.mutable_causes());
  ASSERT_EQ(loss.causes_size(), 1);
  EXPECT_EQ(loss.causes(0).cause(), "no_ring");
  EXPECT_EQ(loss.causes(0).events(), 3u);
}

}  // namespace
}  // namespace jobscope
