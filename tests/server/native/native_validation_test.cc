// SPDX-License-Identifier: Apache-2.0
#include "server/native/native_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/limits.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

StartContext Now() {
  StartContext context;
  context.monotonic_ns = 10'000'000'000'000;
  context.realtime_ns = 1'795'248'345'000'000'000;
  return context;
}

v1::Start ValidStart() {
  v1::Start start;
  start.set_start_monotonic_ns(Now().monotonic_ns + 1'000'000'000);
  start.set_zero_monotonic_ns(Now().monotonic_ns + 500'000'000);
  start.set_zero_unix_ns(1);
  start.set_duration_ns(1'000'000'000);
  return start;
}

void ExpectOutOfRange(const v1::Start& start, const std::string& field) {
  const absl::Status status = ValidateStart(start, Now()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(field + " = "));
}

TEST(ValidateStartTest, TakesWhatIsAsked) {
  v1::Start start = ValidStart();
  start.mutable_steps()->set_first(-3);
  start.mutable_steps()->set_last(4);
  const auto command = ValidateStart(start, Now());
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->start_monotonic_ns, start.start_monotonic_ns());
  EXPECT_EQ(command->zero_monotonic_ns, start.zero_monotonic_ns());
  EXPECT_EQ(command->zero_unix_ns, 1);
  EXPECT_EQ(command->duration, absl::Seconds(1));
  EXPECT_EQ(command->steps->first, -3);
  EXPECT_EQ(command->steps->last, 4);
}

TEST(ValidateStartTest, ZeroesAreNow) {
  v1::Start start;
  start.set_duration_ns(1);
  StartContext context = Now();
  context.granted_lookback = absl::Seconds(2);
  const auto command = ValidateStart(start, context);
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->start_monotonic_ns, context.monotonic_ns);
  EXPECT_EQ(command->zero_monotonic_ns, context.monotonic_ns - 2'000'000'000);
  EXPECT_EQ(command->zero_unix_ns, context.realtime_ns - 2'000'000'000);
}

TEST(ValidateStartTest, NamesWhatIsOutOfRange) {
  v1::Start start = ValidStart();
  start.set_start_monotonic_ns(UINT64_MAX);
  ExpectOutOfRange(start, "start.start_monotonic_ns");
  start = ValidStart();
  start.set_start_monotonic_ns(1);  // some other clock
  ExpectOutOfRange(start, "start.start_monotonic_ns");
  start = ValidStart();
  start.set_zero_monotonic_ns(start.start_monotonic_ns() + 1);
  ExpectOutOfRange(start, "start.zero_monotonic_ns");
  start = ValidStart();
  start.set_zero_monotonic_ns(1);
  ExpectOutOfRange(start, "start.zero_monotonic_ns");
  start = ValidStart();
  start.set_zero_unix_ns(-1);
  ExpectOutOfRange(start, "start.zero_unix_ns");
  start = ValidStart();
  start.set_clock_uncertainty_ns(UINT64_MAX);
  ExpectOutOfRange(start, "start.clock_uncertainty_ns");
  start = ValidStart();
  start.set_clock_offset_ns(INT64_MIN);
  ExpectOutOfRange(start, "start.clock_offset_ns");
  start = ValidStart();
  start.set_duration_ns(UINT64_MAX);
  ExpectOutOfRange(start, "start.duration_ns");
  start = ValidStart();
  start.set_duration_ns(0);
  ExpectOutOfRange(start, "start.duration_ns");
  start = ValidStart();
  start.mutable_steps()->set_first(2);
  start.mutable_steps()->set_last(1);
  ExpectOutOfRange(start, "start.steps.last");
}

TEST(ValidateStartTest, ADumpNeedsALookback) {
  v1::Start start = ValidStart();
  start.set_duration_ns(0);
  StartContext context = Now();
  context.wanted_lookback = absl::Seconds(1);
  EXPECT_TRUE(ValidateStart(start, context).ok());
  start.mutable_steps();
  EXPECT_FALSE(ValidateStart(start, context).ok());
}

TEST(ValidateStartTest, ALookbackEndsAtTheCeilingOnDurations) {
  StartContext context = Now();
  context.max_duration_ms = 2'000;
  context.wanted_lookback = absl::Seconds(1);
  v1::Start start = ValidStart();
  start.set_start_monotonic_ns(context.monotonic_ns - 3'000'000'000'000);  // 50 minutes ago
  start.set_zero_monotonic_ns(start.start_monotonic_ns());
  const auto command = ValidateStart(start, context);
  ASSERT_TRUE(command.ok()) << command.status();
  EXPECT_EQ(command->max_lookback, absl::Seconds(2));
}

TEST(ValidateArmTest, TheStoreIsNeverMoreThanTheWorkers) {
  CallContext context;
  context.store_bytes = 64 << 20;
  v1::Arm arm;
  EXPECT_EQ(ValidateArm(arm, context)->store_bytes, context.store_bytes);
  arm.set_store_bytes(8 << 20);
  EXPECT_EQ(ValidateArm(arm, context)->store_bytes, 8U << 20);
  arm.set_store_bytes(UINT64_MAX);
  EXPECT_EQ(ValidateArm(arm, context)->store_bytes, context.store_bytes);
  arm.set_store_bytes(1);
  const absl::Status status = ValidateArm(arm, context).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("arm.store_bytes = 1 is out of range"));
}

TEST(ValidateArmTest, LevelsAndLookbackAreBounded) {
  CallContext context;
  context.ceilings.levels.python = 2;
  v1::Arm arm;
  arm.set_device_tracer_level(2);
  EXPECT_THAT(std::string(ValidateArm(arm, context).status().message()),
              HasSubstr("arm.device_tracer_level = 2 is out of range: 0 to 1"));
  arm.set_device_tracer_level(1);
  arm.set_python_tracer_level(3);
  EXPECT_FALSE(ValidateArm(arm, context).ok());
  arm.set_python_tracer_level(2);
  arm.set_lookback_ns(3'600'000'000'000);
  const auto options = ValidateArm(arm, context);
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->on_command);
  EXPECT_EQ(options->lookback, absl::Hours(1));
  arm.set_lookback_ns(3'600'000'000'001);
  EXPECT_FALSE(ValidateArm(arm, context).ok());
}

TEST(ValidateArmTest, FrameworksAreNamed) {
  const CallContext context;
  v1::Arm arm;
  EXPECT_EQ(ValidateArm(arm, context)->recording.frameworks.text(), "auto");
  arm.set_frameworks("none");
  EXPECT_EQ(ValidateArm(arm, context)->recording.frameworks.text(), "none");
  EXPECT_FALSE(ValidateArm(arm, context)->recording.record_shapes);
  arm.set_record_shapes(true);
  EXPECT_TRUE(ValidateArm(arm, context)->recording.record_shapes);
  EXPECT_EQ(ValidateArm(arm, context)->recording.device_tracer, DeviceTracer::kAuto);
  arm.set_device_tracer("jobscope");
  EXPECT_EQ(ValidateArm(arm, context)->recording.device_tracer, DeviceTracer::kJobscope);
  arm.set_device_tracer("xla");
  EXPECT_THAT(std::string(ValidateArm(arm, context).status().message()),
              HasSubstr("arm.device_tracer: \"xla\" is none of"));
  arm.clear_device_tracer();
  arm.set_frameworks("Torch");
  EXPECT_THAT(std::string(ValidateArm(arm, context).status().message()),
              HasSubstr("arm.frameworks: \"Torch\" is not a name"));
}

TEST(ValidateStopTest, BoundsTheId) {
  v1::StopRequest stop;
  EXPECT_TRUE(ValidateStop(stop).ok());
  stop.set_session_id(std::string(1 << 20, 'x'));
  EXPECT_EQ(ValidateStop(stop).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace jobscope
