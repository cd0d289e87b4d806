// SPDX-License-Identifier: Apache-2.0
#include "server/tensorflow/tensorflow_validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "server/limits.h"
#include "tests/server/tensorflow/profile_requests.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ProfileValidation, TakesWhatStockClientsSend) {
  const auto call = ValidateProfile(Stock(), Context());
  ASSERT_TRUE(call.ok()) << call.status();
  const SessionOptions& options = call->options;
  EXPECT_EQ(options.session_id, "2026_11_21_08_05_45");
  EXPECT_EQ(options.peer, "127.0.0.1:40123");
  EXPECT_EQ(options.duration, absl::Milliseconds(300));
  EXPECT_EQ(options.start_unix_ns, absl::ToUnixNanos(Context().now) - 2'000'000);
  EXPECT_EQ(options.lookback, absl::ZeroDuration());
  EXPECT_FALSE(options.steps.has_value());
  EXPECT_EQ(options.recording.host_tracer_level, 2);
  EXPECT_EQ(options.recording.device_tracer_level, 1);
  EXPECT_EQ(options.recording.python_tracer_level, 0);
  EXPECT_EQ(options.store_bytes, limits::kDefaultStoreBytes);
  EXPECT_THAT(options.ignored, IsEmpty());
  EXPECT_FALSE(call->emit_xspace);
  EXPECT_EQ(call->file_stem, "127.0.0.1_7301");
}

TEST(ProfileValidation, VersionZeroMeansDefaults) {
  tensorflow::ProfileRequest request = Stock();
  auto* opts = request.mutable_opts();
  opts->set_version(0);
  opts->set_host_tracer_level(77);
  opts->set_device_tracer_level(0);
  opts->set_python_tracer_level(77);
  opts->set_start_timestamp_ns(kMax64);
  const auto call = ValidateProfile(request, Context());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->options.recording.host_tracer_level, 2);
  EXPECT_EQ(call->options.recording.device_tracer_level, 1);
  EXPECT_EQ(call->options.recording.python_tracer_level, 0);
  EXPECT_FALSE(call->options.start_unix_ns.has_value());
  EXPECT_EQ(call->options.duration, absl::Milliseconds(300));
}

TEST(ProfileValidation, FrameworksAreNamedByAKeyOfTheConfiguration) {
  tensorflow::ProfileRequest request = Stock();
  auto& configuration = *request.mutable_opts()->mutable_advanced_configuration();
  configuration["jobscope_frameworks"].set_string_value("torch");
  configuration["another"].set_string_value("torch");
  auto call = ValidateProfile(request, Context());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->options.recording.frameworks.text(), "torch");
  EXPECT_FALSE(call->options.recording.record_shapes);
  EXPECT_THAT(call->options.ignored, ElementsAre("opts.advanced_configuration[\"another\"]"));
  configuration["jobscope_record_shapes"].set_bool_value(true);
  call = ValidateProfile(request, Context());
  EXPECT_TRUE(call->options.recording.record_shapes);
  EXPECT_THAT(call->options.ignored, ElementsAre("opts.advanced_configuration[\"another\"]"));
  EXPECT_EQ(call->options.recording.device_tracer, DeviceTracer::kAuto);
  configuration["jobscope_device_tracer"].set_string_value("framework");
  call = ValidateProfile(request, Context());
  EXPECT_EQ(call->options.recording.device_tracer, DeviceTracer::kFramework);
  EXPECT_THAT(call->options.ignored, ElementsAre("opts.advanced_configuration[\"another\"]"));
  configuration["jobscope_device_tracer"].set_string_value("xla");
  EXPECT_FALSE(ValidateProfile(request, Context()).ok());
  configuration.erase("jobscope_device_tracer");
  configuration["jobscope_frameworks"].set_string_value("torch;jax");
  call = ValidateProfile(request, Context());
  EXPECT_FALSE(call.ok());
}

TEST(ProfileValidation, TakesTheDurationOfTheOptionsFirst) {
  tensorflow::ProfileRequest request;
  request.set_duration_ms(500);
  ASSERT_TRUE(ValidateProfile(request, Context()).ok());
  EXPECT_EQ(ValidateProfile(request, Context())->options.duration, absl::Milliseconds(500));
  request.mutable_opts()->set_duration_ms(700);
  EXPECT_EQ(ValidateProfile(request, Context())->options.duration, absl::Milliseconds(700));
}

TEST(ProfileValidation, OptsSessionIdServesWhereTheOtherIsMissing) {
  tensorflow::ProfileRequest request = Stock();
  request.mutable_opts()->set_session_id("mine");
  EXPECT_EQ(ValidateProfile(request, Context())->options.session_id, "2026_11_21_08_05_45");
  request.clear_session_id();
  EXPECT_EQ(ValidateProfile(request, Context())->options.session_id, "mine");
}

TEST(ProfileValidation, AStartOfLongAgoIsNow) {
  tensorflow::ProfileRequest request = Stock();
  const absl::Time now = Context().now;
  request.mutable_opts()->set_start_timestamp_ns(
      static_cast<uint64_t>(absl::ToUnixNanos(now - absl::Milliseconds(4999))));
  EXPECT_TRUE(ValidateProfile(request, Context())->options.start_unix_ns.has_value());
  request.mutable_opts()->set_start_timestamp_ns(
      static_cast<uint64_t>(absl::ToUnixNanos(now - absl::Milliseconds(5001))));
  EXPECT_FALSE(ValidateProfile(request, Context())->options.start_unix_ns.has_value());
  request.mutable_opts()->set_start_timestamp_ns(1);
  EXPECT_FALSE(ValidateProfile(request, Context())->options.start_unix_ns.has_value());
}

TEST(ProfileValidation, RefusesWhatCannotEndBeforeTheCallersDeadline) {
  CallContext context = Context();
  context.deadline = context.now + absl::Milliseconds(300);
  tensorflow::ProfileRequest request = Stock();
  const auto call = ValidateProfile(request, context);
  EXPECT_EQ(call.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(call.status().message()),
              AllOf(HasSubstr("duration"), HasSubstr("deadline")));
  context.deadline = context.now + absl::Milliseconds(301);
  EXPECT_TRUE(ValidateProfile(request, context).ok());
  // The wait for the start counts.
  request.mutable_opts()->set_start_timestamp_ns(
      static_cast<uint64_t>(absl::ToUnixNanos(context.now + absl::Milliseconds(100))));
  EXPECT_FALSE(ValidateProfile(request, context).ok());
}

TEST(ProfileValidation, NamesWhatItIgnores) {
  tensorflow::ProfileRequest request = Stock();
  request.set_max_events(5);
  (*request.mutable_tool_options())["x"];
  auto* opts = request.mutable_opts();
  opts->mutable_trace_options()->set_host_traceme_filter_mask(1);
  opts->set_raise_error_on_start_failure(true);
  opts->set_override_hostname("alpha");
  auto& configuration = *opts->mutable_advanced_configuration();
  configuration["tpu_circular_buffer_tracing"].set_bool_value(true);
  configuration["a\nb"].set_int64_value(-1);
  const auto call = ValidateProfile(request, Context());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_THAT(
      call->options.ignored,
      ElementsAre("max_events", "tool_options", "opts.trace_options.host_traceme_filter_mask",
                  "opts.raise_error_on_start_failure", "opts.override_hostname",
                  "opts.advanced_configuration[\"a?b\"]",
                  "opts.advanced_configuration[\"tpu_circular_buffer_tracing\"]"));
}

TEST(ProfileValidation, NamesABoundedNumberOfIgnoredOptions) {
  tensorflow::ProfileRequest request = Stock();
  for (int i = 0; i < 100; ++i) {
    (*request.mutable_opts()
          ->mutable_advanced_configuration())[std::to_string(i) + std::string(200, 'k')];
  }
  const auto call = ValidateProfile(request, Context());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_THAT(call->options.ignored, SizeIs(limits::kMaxIgnoredNamed + 1));
  EXPECT_EQ(call->options.ignored.back(), "and 68 more");
  for (const std::string& name : call->options.ignored) EXPECT_LT(name.size(), 120u);
}

TEST(ProfileValidation, TakesPathsForWhatTheyAreNot) {
  tensorflow::ProfileRequest request = Stock();
  request.set_session_id("../../x");
  request.set_host_name("../../etc/passwd");
  request.set_repository_root("../../..");
  const auto call = ValidateProfile(request, Context());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->options.session_id, "../../x");  // a key, nothing else
  EXPECT_EQ(call->file_stem, ".._.._etc_passwd");
}

TEST(ProfileValidation, ADeviceTypeThatIsNotOursTurnsOursOff) {
  tensorflow::ProfileRequest request = Stock();
  request.mutable_opts()->set_device_type(tensorflow::ProfileOptions::CPU);
  EXPECT_EQ(ValidateProfile(request, Context())->options.recording.device_tracer_level, 0);
  request.mutable_opts()->set_device_type(tensorflow::ProfileOptions::GPU);
  EXPECT_EQ(ValidateProfile(request, Context())->options.recording.device_tracer_level, 1);
}

TEST(ContinuousValidation, TakesWhatXProfSends) {
  tensorflow::ProfileRequest request;
  request.set_duration_ms(2000);
  auto* opts = request.mutable_opts();
  opts->set_version(1);
  opts->set_device_tracer_level(1);
  opts->set_duration_ms(2000);
  (*opts->mutable_advanced_configuration())["tpu_circular_buffer_tracing"].set_bool_value(true);
  const auto call = ValidateStartContinuous(request, Context());
  ASSERT_TRUE(call.ok()) << call.status();
  EXPECT_EQ(call->options.recording.host_tracer_level, 2);
  EXPECT_TRUE(call->emit_xspace);
  EXPECT_EQ(call->file_stem, "node7");
  request.mutable_opts()->set_host_tracer_level(9);
  EXPECT_EQ(ValidateStartContinuous(request, Context()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(SnapshotValidation, TakesNamesOnly) {
  tensorflow::GetSnapshotRequest request;
  EXPECT_TRUE(ValidateSnapshot(request).ok());
  request.set_snapshot_session_id("run_1-A" + std::string(121, 'z'));
  EXPECT_TRUE(ValidateSnapshot(request).ok());
  for (const std::string& bad : {std::string("../x"), std::string("a b"), std::string("a.b"),
                                 std::string(129, 'a'), std::string("a\0b", 3), MiB()}) {
    request.set_snapshot_session_id(bad);
    const absl::Status status = ValidateSnapshot(request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.substr(0, 20);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("snapshot_session_id"), HasSubstr("128")));
  }
}

TEST(MonitorValidation, BoundsTimeAndLevel) {
  tensorflow::MonitorRequest request;
  EXPECT_EQ(ValidateMonitor(request, Context())->duration, absl::ZeroDuration());
  request.set_duration_ms(300);
  request.set_monitoring_level(2);
  request.set_timestamp(true);
  const auto call = ValidateMonitor(request, Context());
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->duration, absl::Milliseconds(300));
  EXPECT_TRUE(call->timestamp);
  request.set_monitoring_level(-1);
  EXPECT_THAT(std::string(ValidateMonitor(request, Context()).status().message()),
              HasSubstr("monitoring_level = -1"));
  request.set_monitoring_level(3);
  EXPECT_FALSE(ValidateMonitor(request, Context()).ok());
  request.set_monitoring_level(1);
  request.set_duration_ms(kMax64);
  EXPECT_THAT(std::string(ValidateMonitor(request, Context()).status().message()),
              AllOf(HasSubstr("duration_ms"), HasSubstr("0 to 60000")));
}

TEST(TerminateValidation, BoundsTheId) {
  tensorflow::TerminateRequest terminate;
  EXPECT_TRUE(ValidateTerminate(terminate).ok());
  terminate.set_session_id(MiB());
  EXPECT_EQ(ValidateTerminate(terminate).code(), absl::StatusCode::kInvalidArgument);
}

TEST(FileStem, IsAFileName) {
  EXPECT_EQ(FileStem("10.0.0.7:6009", "node7"), "10.0.0.7_6009");
  EXPECT_EQ(FileStem("[::1]:6009", "node7"), "___1__6009");
  EXPECT_EQ(FileStem("unix:/tmp/a", "node7"), "unix__tmp_a");
  EXPECT_EQ(FileStem("", "node7"), "node7");
  EXPECT_EQ(FileStem("..", "node7"), "node7");
  EXPECT_EQ(FileStem("", "a/b"), "a_b");
  EXPECT_EQ(FileStem("", ".."), "worker");
  EXPECT_EQ(FileStem(std::string("a\0b\xff", 4), ""), "a_b_");
  EXPECT_EQ(FileStem(MiB(), "").size(), limits::kMaxFileStemBytes);
}

}  // namespace
}  // namespace jobscope
