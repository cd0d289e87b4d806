// SPDX-License-Identifier: Apache-2.0
#include "client/native/outages.h"

#include <gtest/gtest.h>

#include <string>

#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

grpc::Status Unavailable(const std::string& text) {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, text);
}

TEST(OutagesTest, AnOutageLastsFromTheFirstFailureToTheNextMessage) {
  Outages outages(absl::Seconds(5), 1);
  EXPECT_FALSE(outages.ongoing());
  EXPECT_EQ(outages.GiveUpAt(0), kNeverNs);
  EXPECT_FALSE(outages.End(kSecond).has_value());
  EXPECT_TRUE(outages.Fail(Unavailable("cut"), 10 * kSecond, 9 * kSecond));
  EXPECT_FALSE(outages.Fail(Unavailable("refused"), 11 * kSecond, 9 * kSecond));
  EXPECT_EQ(outages.since_ns(), 10 * kSecond);
  EXPECT_EQ(outages.End(12 * kSecond), absl::Seconds(2));
  EXPECT_TRUE(outages.Fail(Unavailable("cut"), 20 * kSecond, 20 * kSecond));
  EXPECT_EQ(outages.End(21 * kSecond), absl::Seconds(1));
  EXPECT_EQ(outages.count(), 2);
  EXPECT_EQ(outages.total(), absl::Seconds(3));
}

TEST(OutagesTest, WaitsDoubleUntilTheWorkerDelivers) {
  Outages outages(absl::Seconds(5), 1);
  const auto expect_about = [&outages](absl::Duration least) {
    const absl::Duration backoff = outages.NextBackoff();
    EXPECT_GE(backoff, least);
    EXPECT_LE(backoff, 1.25 * least);
  };
  for (const int ms : {100, 200, 400, 800, 1600, 2000, 2000}) expect_about(absl::Milliseconds(ms));
  outages.ResetBackoff();
  expect_about(absl::Milliseconds(100));
}

// What was waited for in silence counts, and so does the recording that goes on; but it is tried
// once more in any case.
TEST(OutagesTest, IsGivenUpAfterTheResumeTimeout) {
  Outages outages(absl::Seconds(5), 1);
  outages.Fail(Unavailable("cut"), 100 * kSecond, 99 * kSecond);
  EXPECT_EQ(outages.GiveUpAt(/*planned_end_ns=*/50 * kSecond), 104 * kSecond);
  EXPECT_EQ(outages.GiveUpAt(200 * kSecond), 205 * kSecond);
  outages.End(101 * kSecond);
  outages.Fail(Unavailable("cut"), 120 * kSecond, 101 * kSecond);
  EXPECT_EQ(outages.GiveUpAt(50 * kSecond), 122 * kSecond);
  Outages impatient(absl::Seconds(1), 1);
  impatient.Fail(Unavailable("cut"), 120 * kSecond, 101 * kSecond);
  EXPECT_EQ(impatient.GiveUpAt(50 * kSecond), 121 * kSecond);
}

TEST(OutagesTest, TheEndNamesItsCauses) {
  Outages outages(absl::Seconds(5), 1);
  EXPECT_EQ(outages.WithCause(Unavailable("late")).error_message(), "late");
  outages.Fail(Unavailable("cut"), 1, 1);
  EXPECT_EQ(outages.WhyGivenUp().error_message(), "could not be reached again");
  EXPECT_EQ(outages.WithCause(Unavailable("late")).error_message(), "cut; then late");
  outages.Fail(grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "refused"), 2, 1);
  EXPECT_EQ(outages.WhyGivenUp().error_message(), "could not be reached again: refused");
  EXPECT_EQ(outages.WhyGivenUp().error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace jobscope
