// SPDX-License-Identifier: Apache-2.0
//
// Stock workers and those of both protocols in one fan-out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "absl/time/time.h"
#include "client/fan_out/fan_out.h"
#include "tests/client/fan_out/fan_out_fixture.h"
#include "tests/client/fan_out/scripted_worker.h"

namespace jobscope {
namespace {

using grpc::Status;
using grpc::StatusCode;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(FanOutTest, BusyAnswersOfStockWorkersAreRetried) {
  Script stock = Stock();
  stock.capture = [](int call) {
    return call < 2 ? Status(StatusCode::INTERNAL, "Another profiling session active.")
                    : Status::OK;
  };
  const std::vector<WorkerResult> results = Run({stock});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
  EXPECT_EQ(results[0].account.protocol, Protocol::kTensorflow);
  EXPECT_EQ(starts(0).size(), 3u);
}

TEST_F(FanOutTest, WorkersOfBothProtocolsStartTogether) {
  Script older;  // ours, but it does not stream
  older.streams = false;
  const std::vector<WorkerResult> results = Run({Script(), Stock(), older});
  for (const WorkerResult& result : results) EXPECT_STREQ(Name(result.outcome.kind), "ok");
  EXPECT_EQ(results[0].account.protocol, Protocol::kNative);
  EXPECT_THAT(results[0].account.warnings, IsEmpty());
  for (const size_t i : {1, 2}) {
    EXPECT_EQ(results[i].account.protocol, Protocol::kTensorflow);
    EXPECT_THAT(results[i].account.warnings,
                ElementsAre(HasSubstr("does not speak the native protocol")));
    EXPECT_EQ(starts(i)[0].start_unix_ns, starts(0)[0].start_unix_ns);
    EXPECT_FALSE(starts(i)[0].clock.has_value());
  }
}

TEST_F(FanOutTest, ProtocolNativeRefusesOthers) {
  options_.protocol = Protocol::kNative;
  const std::vector<WorkerResult> results = Run({Script(), Stock()});
  EXPECT_STREQ(Name(results[0].outcome.kind), "ok");
  EXPECT_STREQ(Name(results[1].outcome.kind), "refused");
  EXPECT_THAT(results[1].outcome.reason, HasSubstr("--protocol=native"));
}

// A trace of more than 2 GiB would abort its process.
TEST_F(FanOutTest, AStockWorkerIsRecordedForLongOnlyOnRequest) {
  options_.duration = absl::Milliseconds(10001);
  // Nobody waits for that time.
  Script fails;
  fails.capture = [](int) { return Status(StatusCode::INTERNAL, "enough"); };
  Script older = fails;  // ours, and limits its trace
  older.streams = false;
  Script stock = Stock();
  stock.capture = fails.capture;
  const std::vector<WorkerResult> results = Run({fails, stock, older});
  EXPECT_STREQ(Name(results[1].outcome.kind), "refused");
  EXPECT_STREQ(Name(results[1].outcome.phase), "describe");
  EXPECT_THAT(results[1].outcome.reason,
              AllOf(HasSubstr("2 GiB"), HasSubstr("lower --duration_ms to 10000"),
                    HasSubstr("--protocol=tensorflow")));
  EXPECT_TRUE(starts(1).empty());
  for (const size_t i : {0, 2}) EXPECT_EQ(starts(i).size(), 1u) << i;
  EXPECT_THAT(results[2].account.warnings, ElementsAre(Not(HasSubstr("2 GiB"))));

  // --protocol=tensorflow would be a usage error.
  options_.lookback = absl::Seconds(1);
  EXPECT_THAT(Run({stock})[0].outcome.reason,
              AllOf(HasSubstr("lower --duration_ms to 10000"), Not(HasSubstr("--protocol"))));
  options_.lookback = absl::ZeroDuration();
  options_.steps = StepsWanted{3, std::nullopt};
  EXPECT_THAT(Run({stock})[0].outcome.reason, Not(HasSubstr("--protocol")));
  options_.steps.reset();

  options_.protocol = Protocol::kTensorflow;
  Run({stock});
  EXPECT_EQ(starts(0).size(), 1u);
}

TEST_F(FanOutTest, AStockWorkerThatDiesAfterItsEndMayHaveRecordedTooMuch) {
  options_.duration = absl::Milliseconds(10);
  Script stock = Stock();
  stock.capture = [](int) { return Status(StatusCode::UNAVAILABLE, "Socket closed"); };
  stock.capture_fails_after = absl::Seconds(2);
  Script older = stock;
  older.stock = false;
  const std::vector<WorkerResult> results = Run({stock, older});
  for (const WorkerResult& result : results) {
    EXPECT_STREQ(Name(result.outcome.kind), "died");
    EXPECT_STREQ(Name(result.outcome.phase), "transfer");
  }
  EXPECT_THAT(results[0].outcome.reason, HasSubstr("exceeds 2 GiB"));
  EXPECT_THAT(results[0].account.warnings, ElementsAre(HasSubstr("exceeds 2 GiB")));
  EXPECT_THAT(results[1].outcome.reason, Not(HasSubstr("2 GiB")));
}

TEST_F(FanOutTest, ProtocolTensorflowIsForcedOnAll) {
  options_.protocol = Protocol::kTensorflow;
  const std::vector<WorkerResult> results = Run({Script(), Script()});
  for (const size_t i : {0, 1}) {
    EXPECT_STREQ(Name(results[i].outcome.kind), "ok");
    EXPECT_EQ(results[i].account.protocol, Protocol::kTensorflow);
    EXPECT_EQ(connects(i), 1);
    EXPECT_THAT(results[i].account.warnings, IsEmpty());
  }
}

}  // namespace
}  // namespace jobscope
