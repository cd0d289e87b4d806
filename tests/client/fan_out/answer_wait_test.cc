// SPDX-License-Identifier: Apache-2.0
#include "client/fan_out/answer_wait.h"

#include <gtest/gtest.h>

#include "absl/time/time.h"

namespace jobscope {
namespace {

TEST(AnswerWaitTest, TheSlowestAnswerDecidesHowLongOthersAreWaitedFor) {
  const absl::Time begin = absl::FromUnixSeconds(1000);
  AnswerWait wait;
  wait.Begin(begin);
  EXPECT_EQ(wait.Deadline(absl::Seconds(1)), begin + absl::Seconds(1));
  wait.OnAsked(begin + absl::Seconds(2));
  EXPECT_EQ(wait.Deadline(absl::Seconds(1)), begin + absl::Seconds(3));
  wait.OnAnswer(begin, begin + absl::Seconds(4));
  wait.OnAnswer(begin + absl::Seconds(2), begin + absl::Seconds(5));
  EXPECT_EQ(wait.last_answer(), begin + absl::Seconds(5));
  EXPECT_EQ(wait.Deadline(absl::Seconds(1)), begin + absl::Seconds(5 + 4 * 4));
}

}  // namespace
}  // namespace jobscope
