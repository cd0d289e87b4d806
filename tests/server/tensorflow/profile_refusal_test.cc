// SPDX-License-Identifier: Apache-2.0
//
// Tests the text of the refusal for Profile requests with one invalid field.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "server/limits.h"
#include "server/tensorflow/tensorflow_validation.h"
#include "tests/server/tensorflow/profile_requests.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Each case breaks one field of a good request and names what the refusal must say.
struct Absurd {
  const char* name;
  void (*change)(tensorflow::ProfileRequest*);
  const char* field;
  const char* value;
  const char* range;
};

const Absurd kAbsurd[] = {
    {"NoDuration",
     [](tensorflow::ProfileRequest* r) {
       r->set_duration_ms(0);
       r->mutable_opts()->set_duration_ms(0);
     },
     "duration_ms", "0", "1 to 3600000"},
    {"NegativeDuration",
     [](tensorflow::ProfileRequest* r) {
       r->mutable_opts()->set_duration_ms(static_cast<uint64_t>(-5));
     },
     "opts.duration_ms", "18446744073709551611", "1 to 3600000"},
    {"NegativeOuterDuration",
     [](tensorflow::ProfileRequest* r) {
       r->mutable_opts()->set_duration_ms(0);
       r->set_duration_ms(kMax64);
     },
     "duration_ms", "18446744073709551615", "1 to 3600000"},
    {"LongDuration",
     [](tensorflow::ProfileRequest* r) { r->mutable_opts()->set_duration_ms(3'600'001); },
     "opts.duration_ms", "3600001", "1 to 3600000"},
    {"HostLevel",
     [](tensorflow::ProfileRequest* r) { r->mutable_opts()->set_host_tracer_level(4); },
     "opts.host_tracer_level", "4", "0 to 3"},
    {"NegativeHostLevel",
     [](tensorflow::ProfileRequest* r) {
       r->mutable_opts()->set_host_tracer_level(static_cast<uint32_t>(-1));
     },
     "opts.host_tracer_level", "4294967295", "0 to 3"},
    {"DeviceLevel",
     [](tensorflow::ProfileRequest* r) { r->mutable_opts()->set_device_tracer_level(2); },
     "opts.device_tracer_level", "2", "0 to 1"},
    {"PythonLevel",
     [](tensorflow::ProfileRequest* r) { r->mutable_opts()->set_python_tracer_level(3); },
     "opts.python_tracer_level", "3", "0 to 2"},
    {"StartInAnHourAndMore",
     [](tensorflow::ProfileRequest* r) {
       r->mutable_opts()->set_start_timestamp_ns(
           static_cast<uint64_t>(absl::ToUnixNanos(Context().now + absl::Minutes(61))));
     },
     "opts.start_timestamp_ns", "17952520", "at most 1h"},
    {"StartBeyondSignedTime",
     [](tensorflow::ProfileRequest* r) { r->mutable_opts()->set_start_timestamp_ns(kMax64); },
     "opts.start_timestamp_ns", "18446744073709551615", "at most 1h"},
    {"SessionId", [](tensorflow::ProfileRequest* r) { r->set_session_id(MiB()); }, "session_id",
     "1048576 bytes", "at most 256"},
    {"OptsSessionId",
     [](tensorflow::ProfileRequest* r) { r->mutable_opts()->set_session_id(MiB()); },
     "opts.session_id", "1048576 bytes", "at most 256"},
    {"HostName", [](tensorflow::ProfileRequest* r) { r->set_host_name(MiB()); }, "host_name",
     "1048576 bytes", "at most 512"},
    {"OverrideHostname",
     [](tensorflow::ProfileRequest* r) { r->mutable_opts()->set_override_hostname(MiB()); },
     "opts.override_hostname", "1048576 bytes", "at most 512"},
    {"RepositoryRoot", [](tensorflow::ProfileRequest* r) { r->set_repository_root(MiB()); },
     "repository_root", "1048576 bytes", "at most 4096"},
    {"RepositoryPath",
     [](tensorflow::ProfileRequest* r) { r->mutable_opts()->set_repository_path(MiB()); },
     "opts.repository_path", "1048576 bytes", "at most 4096"},
    {"ToolName", [](tensorflow::ProfileRequest* r) { r->add_tools(MiB()); }, "tools",
     "1048576 bytes", "at most 256"},
    {"TooManyTools",
     [](tensorflow::ProfileRequest* r) {
       for (int i = 0; i < 1000; ++i) r->add_tools("t");
     },
     "tools", "1010 entries", "at most 64"},
    {"ToolOptions",
     [](tensorflow::ProfileRequest* r) {
       (*r->mutable_tool_options())["x"].set_output_formats(MiB());
     },
     "tool_options", "1048576 bytes", "at most 256"},
    {"ConfigurationKey",
     [](tensorflow::ProfileRequest* r) {
       (*r->mutable_opts()->mutable_advanced_configuration())[MiB()].set_bool_value(true);
     },
     "opts.advanced_configuration", "1048576 bytes", "at most 256"},
    {"ConfigurationValue",
     [](tensorflow::ProfileRequest* r) {
       (*r->mutable_opts()->mutable_advanced_configuration())["x"].set_string_value(MiB());
     },
     "opts.advanced_configuration", "1048576 bytes", "at most 4096"},
    {"TooManyConfigurationKeys",
     [](tensorflow::ProfileRequest* r) {
       for (int i = 0; i < 300; ++i) {
         (*r->mutable_opts()->mutable_advanced_configuration())[std::to_string(i)].set_bool_value(
             true);
       }
     },
     "opts.advanced_configuration", "300 entries", "at most 256"},
};

class ProfileRefusal : public ::testing::TestWithParam<Absurd> {};

TEST_P(ProfileRefusal, NamesFieldValueAndRange) {
  tensorflow::ProfileRequest request = Stock();
  GetParam().change(&request);
  const auto call = ValidateProfile(request, Context());
  ASSERT_EQ(call.status().code(), absl::StatusCode::kInvalidArgument) << call.status();
  EXPECT_THAT(
      std::string(call.status().message()),
      AllOf(HasSubstr(GetParam().field), HasSubstr(GetParam().value), HasSubstr(GetParam().range)));
  EXPECT_LE(call.status().message().size(), limits::kMaxStatusTextBytes);
}

INSTANTIATE_TEST_SUITE_P(All, ProfileRefusal, ::testing::ValuesIn(kAbsurd),
                         [](const ::testing::TestParamInfo<Absurd>& info) {
                           return info.param.name;
                         });

}  // namespace
}  // namespace jobscope
