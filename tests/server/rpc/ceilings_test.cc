// SPDX-License-Identifier: Apache-2.0
//
// Tests the operator's ceilings: which requests are refused with the ceiling's name, and which
// values are lowered for stock clients.
#include "server/rpc/ceilings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/time.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/native/native_validation.h"
#include "server/tensorflow/tensorflow_validation.h"
#include "tensorflow/profiler_service.pb.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string TextOf(const absl::Status& status) { return std::string(status.message()); }

CallContext Context() {
  CallContext context;
  context.now = absl::FromUnixSeconds(1'700'000'000);
  context.store_bytes = limits::kDefaultStoreBytes;
  return context;
}

TEST(CeilingsTest, LevelsAreThreeNumbers) {
  LevelCeilings levels{3, 1, 1};
  EXPECT_TRUE(ParseLevels("", &levels).ok());
  EXPECT_EQ(levels.python, 1);
  EXPECT_TRUE(ParseLevels("2/0/2", &levels).ok());
  EXPECT_EQ(levels.host, 2);
  EXPECT_EQ(levels.device, 0);
  EXPECT_EQ(levels.python, 2);
  for (const char* bad : {"2", "2/0", "2/0/3", "4/1/1", "3/2/1", "-1/1/1", "3/1/1/", "a/b/c",
                          "3 /1/1", "//", "+1/1/1"}) {
    const absl::Status status = ParseLevels(bad, &levels);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(TextOf(status), HasSubstr("such as 3/1/2"));
    EXPECT_EQ(levels.host, 2) << bad;
  }
}

TEST(CeilingsTest, PythonsCallsAreTracedOnlyWhereTheOperatorAllowsIt) {
  CallContext context = Context();
  v1::Arm arm;
  arm.set_python_tracer_level(2);
  const auto refused = ValidateArm(arm, context);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(TextOf(refused.status()),
              AllOf(HasSubstr("arm.python_tracer_level = 2"), HasSubstr("ceiling of 1"),
                    HasSubstr("JOBSCOPE_MAX_LEVELS"), HasSubstr("options.max_levels")));
  context.ceilings.levels.python = 2;
  EXPECT_TRUE(ValidateArm(arm, context).ok());
  arm.set_host_tracer_level(3);
  context.ceilings.levels.host = 2;
  EXPECT_THAT(TextOf(ValidateArm(arm, context).status()), HasSubstr("arm.host_tracer_level = 3"));
}

TEST(CeilingsTest, LevelsOfStockClientsAreLoweredAndNamed) {
  CallContext context = Context();
  tensorflow::ProfileRequest request;
  request.set_duration_ms(100);
  request.mutable_opts()->set_version(1);
  request.mutable_opts()->set_host_tracer_level(2);
  request.mutable_opts()->set_device_tracer_level(1);
  request.mutable_opts()->set_python_tracer_level(1);
  auto call = ValidateProfile(request, context);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_THAT(call->options.ignored, IsEmpty());
  request.mutable_opts()->set_python_tracer_level(2);
  context.ceilings.levels.host = 1;
  call = ValidateProfile(request, context);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->options.recording.host_tracer_level, 1);
  EXPECT_EQ(call->options.recording.device_tracer_level, 1);
  EXPECT_EQ(call->options.recording.python_tracer_level, 1);
  ASSERT_EQ(call->options.ignored.size(), 2U);
  EXPECT_THAT(call->options.ignored[0],
              AllOf(HasSubstr("host_tracer_level = 2"), HasSubstr("JOBSCOPE_MAX_LEVELS")));
  // What XProf's continuous mode is given in place of level 0 stays below the ceiling, too.
  request.mutable_opts()->set_host_tracer_level(0);
  call = ValidateStartContinuous(request, context);
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->options.recording.host_tracer_level, 1);
}

TEST(CeilingsTest, LongerCapturesAreRefused) {
  CallContext context = Context();
  context.ceilings.duration_ms = 5'000;
  tensorflow::ProfileRequest request;
  request.set_duration_ms(5'000);
  EXPECT_TRUE(ValidateProfile(request, context).ok());
  request.set_duration_ms(5'001);
  const auto refused = ValidateProfile(request, context);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(TextOf(refused.status()),
              AllOf(HasSubstr("duration_ms = 5001"), HasSubstr("ceiling of 5000"),
                    HasSubstr("JOBSCOPE_MAX_DURATION_MS"), HasSubstr("options.max_duration_ms")));
  StartContext start_context;
  start_context.monotonic_ns = 1'000'000'000'000;
  start_context.max_duration_ms = 5'000;
  v1::Start start;
  start.set_duration_ns(5'000'000'000);
  EXPECT_TRUE(ValidateStart(start, start_context).ok());
  start.set_duration_ns(5'000'000'001);
  EXPECT_EQ(ValidateStart(start, start_context).status().code(),
            absl::StatusCode::kPermissionDenied);
}

TEST(CeilingsTest, LongerLookbacksAreRefused) {
  CallContext context = Context();
  context.ceilings.duration_ms = 5'000;
  v1::Arm arm;
  arm.set_lookback_ns(5'000'000'000);
  EXPECT_TRUE(ValidateArm(arm, context).ok());
  arm.set_lookback_ns(5'000'000'001);
  const auto refused = ValidateArm(arm, context);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(TextOf(refused.status()),
              AllOf(HasSubstr("arm.lookback_ns = 5000000001"), HasSubstr("ceiling of 5000 ms"),
                    HasSubstr("JOBSCOPE_MAX_DURATION_MS"), HasSubstr("options.max_duration_ms")));
}

TEST(CeilingsTest, TheBytesOfATraceReachTheSession) {
  CallContext context = Context();
  context.ceilings.trace_bytes = 4 << 20;
  EXPECT_EQ(ValidateArm(v1::Arm(), context)->max_trace_bytes, 4U << 20);
  tensorflow::ProfileRequest request;
  request.set_duration_ms(100);
  EXPECT_EQ(ValidateProfile(request, context)->options.max_trace_bytes, 4U << 20);
}

TEST(CaptureRateTest, CountsPerMinute) {
  const absl::Time start = absl::FromUnixSeconds(1'700'000'000);
  CaptureRate free(0);
  for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(free.Take(start).ok());
  CaptureRate rate(6);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(rate.Take(start).ok());
  const absl::Status refused = rate.Take(start + absl::Seconds(1));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(TextOf(refused), AllOf(HasSubstr("6 captures per minute"), HasSubstr("in 9s"),
                                     HasSubstr("JOBSCOPE_MAX_CAPTURES_PER_MINUTE")));
  EXPECT_TRUE(rate.Take(start + absl::Seconds(10)).ok());
  EXPECT_FALSE(rate.Take(start + absl::Seconds(11)).ok());
  // A clock that is set back gives none.
  EXPECT_FALSE(rate.Take(start - absl::Hours(1)).ok());
  int taken = 0;
  while (rate.Take(start + absl::Hours(1)).ok()) ++taken;
  EXPECT_EQ(taken, 6);
  rate.GiveBack();
  EXPECT_TRUE(rate.Take(start + absl::Hours(1)).ok());
  EXPECT_FALSE(rate.Take(start + absl::Hours(1)).ok());
  // Never more than the ceiling.
  rate.GiveBack();
  EXPECT_TRUE(rate.Take(start + absl::Hours(2)).ok());
  for (int i = 0; i < 3; ++i) rate.GiveBack();
  taken = 0;
  while (rate.Take(start + absl::Hours(2)).ok()) ++taken;
  EXPECT_EQ(taken, 6);
}

}  // namespace
}  // namespace jobscope
