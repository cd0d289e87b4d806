// SPDX-License-Identifier: Apache-2.0
#include "server/security/audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/time/time.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(AuditTest, ALineIsPairsOfKeyAndValue) {
  const absl::Status refused = absl::UnauthenticatedError("no \"token\"\n");
  EXPECT_EQ(AuditLine({AuditKind::kAction, "a.B/C", "10.0.0.3:4 (al\\ice)", "", absl::Seconds(2),
                       absl::OkStatus(), "12 items"}),
            "method=\"a.B/C\" peer=\"10.0.0.3:4 (al\\\\ice)\" seconds=2.000 status=OK "
            "outcome=\"12 items\"");
  const std::string line = AuditLine(
      {AuditKind::kRefusal, "a.B/C", "x", "user agent y", absl::ZeroDuration(), refused, ""}, 7);
  EXPECT_THAT(line, AllOf(HasSubstr("asked=\"user agent y\""), HasSubstr("status=UNAUTHENTICATED"),
                          HasSubstr("reason=\"no \\\"token\\\""), HasSubstr(" omitted=7"),
                          Not(HasSubstr("\n"))));
}

TEST(AuditTest, AScannerFillsNoLogAndHidesNoCapture) {
  std::vector<std::string> lines;
  AuditLog log([&lines](const std::string& line) { lines.push_back(line); });
  const absl::Time start = absl::FromUnixSeconds(1'000'000);
  const AuditRecord refusal = {AuditKind::kRefusal,
                               "a.B/C",
                               "mallory",
                               "scanner/1",
                               absl::ZeroDuration(),
                               absl::UnauthenticatedError("no token"),
                               ""};
  for (int i = 0; i < 1000; ++i) log.WriteAt(refusal, start + absl::Milliseconds(i) / 10);
  EXPECT_EQ(lines.size(), 10u);
  EXPECT_THAT(lines[0], Not(HasSubstr("omitted")));
  // What records has a budget of its own.
  const AuditRecord capture = {KindOf("jobscope.v1.Profiler/Capture"),
                               "jobscope.v1.Profiler/Capture",
                               "operator",
                               "",
                               absl::Seconds(2),
                               absl::OkStatus(),
                               "12 items"};
  log.WriteAt(capture, start + absl::Milliseconds(100));
  EXPECT_EQ(lines.size(), 11u);
  EXPECT_THAT(lines.back(), AllOf(HasSubstr("Capture"), Not(HasSubstr("omitted"))));
  log.WriteAt(refusal, start + absl::Seconds(2));
  ASSERT_EQ(lines.size(), 12u);
  EXPECT_THAT(lines.back(), HasSubstr("omitted=990"));
}

}  // namespace
}  // namespace jobscope
