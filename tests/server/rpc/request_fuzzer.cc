// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/options/recording_options.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/limits.h"
#include "server/native/native_validation.h"
#include "server/tensorflow/tensorflow_validation.h"
#include "tensorflow/profiler_service.pb.h"
#include "tests/fuzz_input.h"
#include "tests/silent_protobuf.h"

namespace jobscope {
namespace {

// A refusal is INVALID_ARGUMENT, or PERMISSION_DENIED over a ceiling of the operator, with a text
// that fits a trailer.
void CheckRefusal(const absl::Status& status) {
  Require(absl::IsInvalidArgument(status) || absl::IsPermissionDenied(status));
  Require(!status.message().empty() && status.message().size() <= limits::kMaxStatusTextBytes);
}

// Whatever was sent: what a session is asked to do lies within the limits.
void CheckCall(const absl::StatusOr<ProfileCall>& call, bool has_duration, absl::Time now) {
  if (!call.ok()) return CheckRefusal(call.status());
  const SessionOptions& options = call->options;
  if (has_duration) {
    Require(options.duration >= absl::Milliseconds(1));
    Require(options.duration <= absl::Milliseconds(static_cast<int64_t>(limits::kMaxDurationMs)));
  }
  if (options.start_unix_ns.has_value()) {
    const absl::Time start = absl::FromUnixNanos(*options.start_unix_ns);
    Require(start >= now - limits::kMaxStartAge && start <= now + limits::kMaxStartDelay);
  }
  Require(options.recording.host_tracer_level >= 0 && options.recording.host_tracer_level <= 3);
  Require(options.recording.device_tracer_level >= 0 && options.recording.device_tracer_level <= 1);
  Require(options.recording.python_tracer_level >= 0 && options.recording.python_tracer_level <= 2);
  Require(options.session_id.size() <= limits::kMaxSessionIdBytes);
  Require(options.ignored.size() <= limits::kMaxIgnoredNamed + 1);
  for (const std::string& name : options.ignored) Require(name.size() <= 200);
  const std::string& stem = call->file_stem;
  Require(!stem.empty() && stem != "." && stem != ".." && stem.size() <= limits::kMaxFileStemBytes);
  Require(
      stem.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
      std::string::npos);
}

// Whatever was sent: a session is commanded to what it can do.
void CheckCapture(const v1::CaptureRequest& request, CallContext context) {
  context.store_bytes = uint64_t{256} << 20;
  const auto options = ValidateArm(request.arm(), context);
  if (!options.ok()) {
    CheckRefusal(options.status());
  } else {
    Require(options->on_command);
    Require(options->lookback >= absl::ZeroDuration() && options->lookback <= limits::kMaxLookback);
    Require(options->store_bytes >= limits::kMinStoreBytes);
    Require(options->store_bytes <= context.store_bytes);
    Require(options->recording.host_tracer_level >= 0 && options->recording.host_tracer_level <= 3);
  }
  StartContext now;
  now.monotonic_ns = 5'000'000'000'000;
  now.realtime_ns = 1'795'248'345'000'000'000;
  now.wanted_lookback = now.granted_lookback = absl::Nanoseconds(request.arm().lookback_ns() % 10);
  const auto command = ValidateStart(request.start(), now);
  if (!command.ok()) return CheckRefusal(command.status());
  Require(command->zero_monotonic_ns <= command->start_monotonic_ns);
  Require(command->start_monotonic_ns - command->zero_monotonic_ns <= 7'200'000'000'000);
  Require(command->start_monotonic_ns <= now.monotonic_ns + 3'600'000'000'000);
  Require(command->zero_unix_ns >= 0);
  Require(command->duration >= absl::ZeroDuration() && command->duration <= absl::Hours(1));
  if (command->steps.has_value()) Require(command->steps->first <= command->steps->last);
}

void RequireEqual(const absl::StatusOr<RecordingOptions>& found, const RecordingOptions& expected) {
  Require(found.ok());
  for (const RecordingOption& option : AllRecordingOptions()) {
    Require(OptionText(*found, option.name) == OptionText(expected, option.name));
  }
}

// Options from C or from the command line: what is accepted is the same after every other way.
void CheckOptions(const absl::StatusOr<RecordingOptions>& options) {
  if (!options.ok()) return Require(absl::IsInvalidArgument(options.status()));
  v1::Arm arm;
  ToProto(*options, &arm);
  RequireEqual(FromProto(arm), *options);
  tensorflow::ProfileOptions stock;
  stock.set_version(1);
  ToProto(*options, &stock);
  for (const auto& [key, value] : stock.advanced_configuration()) Require(IsOptionKey(key));
  RequireEqual(FromProto(stock), *options);
  v1::Options effective;
  ToProto(*options, &effective);
  Require(effective.host_tracer_level() == arm.host_tracer_level());
  RecordingOptions from_text;
  for (const RecordingOption& option : AllRecordingOptions()) {
    const std::string text = OptionText(*options, option.name);
    Require(SetOption(kFromFlags, option.name, text, &from_text).ok());
  }
  RequireEqual(from_text, *options);
  Require(!LevelsText(*options).empty());
}

// From -128 to 127.
int TakeLevel(FuzzInput* input) {
  const int byte = input->Take<uint8_t>();
  return byte < 128 ? byte : byte - 256;
}

void CheckForeignOptions(FuzzInput* input) {
  jobscope_capture_options given = {};
  given.host_tracer_level = TakeLevel(input);
  given.device_tracer_level = TakeLevel(input);
  given.python_tracer_level = TakeLevel(input);
  given.record_shapes = TakeLevel(input);
  const auto texts = input->Take<uint8_t>();  // which of them are given
  const std::string frameworks = input->TakeBytes16();
  const std::string device_tracer = input->TakeBytes8();
  const std::string by_name = input->TakeBytes16();
  if ((texts & 1) != 0) given.frameworks = frameworks.c_str();
  if ((texts & 2) != 0) given.device_tracer = device_tracer.c_str();
  if ((texts & 4) != 0) given.by_name = by_name.c_str();
  CheckOptions(FromC(given));
  RecordingOptions options;
  const std::string name = input->TakeBytes8();
  const auto status = SetOption(kFromFlags, name, input->TakeBytes16(), &options);
  CheckOptions(status.ok() ? absl::StatusOr<RecordingOptions>(options) : status);
}

}  // namespace
}  // namespace jobscope

// The first byte picks the request, the second the caller's deadline in seconds; the rest are the
// bytes off the wire.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const SilentProtobuf silent;
  if (size < 2) return 0;
  CallContext context;
  context.now = absl::FromUnixSeconds(1'795'248'345);
  if (data[1] != 0) context.deadline = context.now + absl::Seconds(data[1]);
  context.own_host = "host";
  const std::string bytes(reinterpret_cast<const char*>(data + 2), size - 2);
  switch (data[0] % 10) {
    case 0: {
      tensorflow::ProfileRequest request;
      if (request.ParseFromString(bytes))
        CheckCall(ValidateProfile(request, context), true, context.now);
      break;
    }
    case 1: {
      tensorflow::ProfileRequest request;
      if (!request.ParseFromString(bytes)) break;
      const auto call = ValidateStartContinuous(request, context);
      CheckCall(call, false, context.now);
      if (call.ok()) Require(call->options.recording.host_tracer_level > 0);
      break;
    }
    case 2: {
      tensorflow::GetSnapshotRequest request;
      if (!request.ParseFromString(bytes)) break;
      if (const auto status = ValidateSnapshot(request); !status.ok()) CheckRefusal(status);
      break;
    }
    case 3: {
      tensorflow::MonitorRequest request;
      if (!request.ParseFromString(bytes)) break;
      const auto call = ValidateMonitor(request, context);
      if (!call.ok()) {
        CheckRefusal(call.status());
      } else {
        Require(call->duration >= absl::ZeroDuration() && call->duration <= absl::Minutes(1));
      }
      break;
    }
    case 4: {
      tensorflow::TerminateRequest request;
      if (!request.ParseFromString(bytes)) break;
      if (const auto status = ValidateTerminate(request); !status.ok()) CheckRefusal(status);
      break;
    }
    case 6: {
      v1::CaptureRequest request;
      if (request.ParseFromString(bytes)) CheckCapture(request, context);
      break;
    }
    case 7: {
      v1::FetchRequest request;
      if (!request.ParseFromString(bytes)) break;
      if (const auto status = ValidateResume(request.resume()); !status.ok()) CheckRefusal(status);
      break;
    }
    case 8: {
      v1::ClockPing ping;
      (void)ping.ParseFromString(bytes);
      break;
    }
    case 9: {
      FuzzInput input(data + 2, size - 2);
      CheckForeignOptions(&input);
      break;
    }
    default: {  // 5
      v1::StopRequest request;
      if (!request.ParseFromString(bytes)) break;
      if (const auto status = ValidateStop(request); !status.ok()) CheckRefusal(status);
    }
  }
  return 0;
}
