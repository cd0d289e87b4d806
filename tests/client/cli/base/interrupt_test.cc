// SPDX-License-Identifier: Apache-2.0
#include "client/cli/base/interrupt.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "absl/time/time.h"

namespace jobscope {
namespace {

const absl::Time kFirst = absl::FromUnixSeconds(1000);
const absl::Time kAtOnce = kFirst + absl::Milliseconds(999);
const absl::Time kLater = kFirst + absl::Seconds(1);

TEST(EndRequestsTest, OneShutdownIsOneRequest) {
  for (const int first : {SIGINT, SIGTERM, SIGHUP}) {
    for (const int second : {SIGINT, SIGTERM, SIGHUP}) {
      EndRequests requests;
      EXPECT_FALSE(requests.IsRepetition(first, kFirst));
      requests.Add(first, kFirst);
      // Only a person sends SIGINT twice; a shutdown sends the others in quick succession.
      EXPECT_EQ(requests.IsRepetition(second, kAtOnce), first == SIGINT && second == SIGINT)
          << first << " " << second;
      EXPECT_TRUE(requests.IsRepetition(second, kLater)) << first << " " << second;
    }
  }
}

TEST(EndRequestsTest, CtrlCTwiceIsARepetitionWhateverCameBefore) {
  EndRequests requests;
  requests.Add(SIGTERM, kFirst);
  requests.Add(SIGINT, kFirst);
  EXPECT_FALSE(requests.IsRepetition(SIGTERM, kAtOnce));
  EXPECT_TRUE(requests.IsRepetition(SIGINT, kAtOnce));
  // The time counts from the first of all.
  requests.Add(SIGHUP, kAtOnce);
  EXPECT_TRUE(requests.IsRepetition(SIGTERM, kLater));
}

}  // namespace
}  // namespace jobscope
