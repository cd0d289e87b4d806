// SPDX-License-Identifier: Apache-2.0
//
// Processes with several addresses: recorded once, and under another address if the first fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "absl/time/time.h"
#include "client/fan_out/fan_out.h"
#include "tests/client/fan_out/fan_out_fixture.h"
#include "tests/client/fan_out/scripted_worker.h"

namespace jobscope {
namespace {

using grpc::Status;
using grpc::StatusCode;
using ::testing::HasSubstr;

TEST_F(FanOutTest, OneProcessOfTwoAddressesIsRecordedOnce) {
  Script first;
  first.pid = 7;
  Script other;
  other.pid = 8;
  const std::vector<WorkerResult> results = Run({first, other, first, Script(), Script()});
  std::vector<size_t> recorded;
  std::vector<size_t> twins;
  for (size_t i = 0; i < results.size(); ++i) {
    const bool ok = results[i].outcome.kind == Outcome::kOk;
    (ok ? recorded : twins).push_back(i);
    EXPECT_EQ(starts(i).size(), ok ? 1u : 0u);
  }
  // Whichever of the two answered first. Who does not tell is nobody else.
  ASSERT_EQ(twins.size(), 1u);
  EXPECT_EQ(twins[0] % 2, 0u);
  const WorkerResult& twin = results[twins[0]];
  EXPECT_STREQ(Name(twin.outcome.kind), "duplicate");
  EXPECT_EQ(twin.account.same_as, twins[0] == 0 ? "w2:1" : "w0:1");
  EXPECT_THAT(twin.outcome.reason, HasSubstr("(pid 7 on )"));
}

// The path over the first address breaks after its answer, the second one works.
TEST_F(FanOutTest, AProcessIsRecordedUnderItsOtherAddressIfTheFirstFails) {
  for (const StatusCode code : {StatusCode::UNAVAILABLE, StatusCode::DEADLINE_EXCEEDED}) {
    Script broken;
    broken.pid = 7;
    broken.arm = [code](int) { return Status(code, "no path"); };
    broken.arm_takes = absl::Milliseconds(100);
    Script works;
    works.pid = 7;
    works.describe_takes = absl::Milliseconds(20);  // while the first one arms
    const std::vector<WorkerResult> results = Run({broken, works});
    const bool unreachable = code == StatusCode::UNAVAILABLE;
    EXPECT_STREQ(Name(results[0].outcome.kind), unreachable ? "unreachable" : "timeout");
    EXPECT_STREQ(Name(results[1].outcome.kind), "ok") << results[1].outcome.reason;
    EXPECT_EQ(results[1].account.same_as, "");
    EXPECT_EQ(results[1].account.attempts, 2);
    EXPECT_EQ(starts(1).size(), 1u);
  }
}

TEST_F(FanOutTest, AnAddressThatAnswersAfterTheFirstOneFailedIsNoDuplicate) {
  options_.attempts = 1;
  Script broken;
  broken.pid = 7;
  broken.arm = Refused;
  Script works;
  works.pid = 7;
  works.describe_takes = absl::Milliseconds(300);
  const std::vector<WorkerResult> results = Run({broken, works});
  EXPECT_STREQ(Name(results[0].outcome.kind), "unreachable");
  EXPECT_STREQ(Name(results[1].outcome.kind), "ok") << results[1].outcome.reason;
}

// A third address is a duplicate of the second one then.
TEST_F(FanOutTest, OneOfTheOtherAddressesReplacesTheFirst) {
  Script broken;
  broken.pid = 7;
  broken.arm = Refused;
  broken.arm_takes = absl::Milliseconds(100);
  Script second;
  second.pid = 7;
  second.describe_takes = absl::Milliseconds(20);
  Script third = second;
  third.describe_takes = absl::Milliseconds(60);
  const std::vector<WorkerResult> results = Run({broken, second, third});
  EXPECT_STREQ(Name(results[0].outcome.kind), "unreachable");
  const bool second_recorded = results[1].outcome.kind == Outcome::kOk;
  EXPECT_STREQ(Name(results[second_recorded ? 1 : 2].outcome.kind), "ok");
  const WorkerResult& other = results[second_recorded ? 2 : 1];
  EXPECT_STREQ(Name(other.outcome.kind), "duplicate");
  EXPECT_EQ(other.account.same_as, second_recorded ? "w1:1" : "w2:1");
}

// Between two attempts at the first address, another process begins to listen there.
TEST_F(FanOutTest, AProcessIsRecordedUnderItsOtherAddressIfTheFirstHasAnother) {
  Script replaced;
  replaced.pid = 7;
  replaced.next_pid = 8;
  replaced.arm = [](int attempt) { return attempt == 0 ? Refused(0) : Status::OK; };
  replaced.arm_takes = absl::Milliseconds(100);
  Script works;
  works.pid = 7;
  works.describe_takes = absl::Milliseconds(20);  // while the first one arms
  const std::vector<WorkerResult> results = Run({replaced, works});
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_STREQ(Name(results[i].outcome.kind), "ok") << i << ": " << results[i].outcome.reason;
    EXPECT_EQ(results[i].account.same_as, "");
    EXPECT_EQ(starts(i).size(), 1u);
  }
}

TEST_F(FanOutTest, AProcessThatRefusesIsNotAskedAtItsOtherAddress) {
  Script refuses;
  refuses.pid = 7;
  refuses.arm = [](int) { return Status(StatusCode::PERMISSION_DENIED, "not you"); };
  Script other = refuses;
  other.describe_takes = absl::Milliseconds(20);
  const std::vector<WorkerResult> results = Run({refuses, other, Script()});
  EXPECT_STREQ(Name(results[0].outcome.kind), "refused");
  EXPECT_STREQ(Name(results[1].outcome.kind), "duplicate");
  EXPECT_EQ(connects(1), 1);
  EXPECT_STREQ(Name(results[2].outcome.kind), "ok");
}

TEST_F(FanOutTest, EqualProcessIdsAreNotOneProcess) {
  Script first;
  first.pid = 7;
  first.host = "a";
  first.pid_space = "1";
  Script elsewhere = first;
  elsewhere.host = "b";
  Script in_a_container = first;
  in_a_container.pid_space = "2";
  Script later = first;
  later.start_unix_ns += 1;
  // Whose start is not known may be another one.
  Script unknown = first;
  unknown.start_unix_ns = 0;
  const std::vector<WorkerResult> results =
      Run({first, elsewhere, in_a_container, later, unknown, unknown});
  for (size_t i = 0; i < results.size(); ++i) {
    EXPECT_STREQ(Name(results[i].outcome.kind), "ok") << i;
    EXPECT_EQ(starts(i).size(), 1u) << i;
  }
}

}  // namespace
}  // namespace jobscope
