// SPDX-License-Identifier: Apache-2.0
//
// Implements the C ABI of programmatic captures.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/monotonic.h"
#include "common/options/recording_options.h"
#include "common/xspace/assemble/assembler.h"
#include "jobscope/jobscope_c.h"
#include "server/c_api/c_edge.h"
#include "server/guard/fork_guard.h"
#include "server/guard/resource_guard.h"
#include "server/limits.h"
#include "server/process/environment.h"
#include "server/process/exit_delivery.h"
#include "server/process/worker_runtime.h"
#include "server/programmatic/programmatic_capture.h"

namespace jobscope {
namespace {

constexpr size_t kMaxLogdirBytes = 4096;
constexpr uint64_t kMaxProgrammaticStoreBytes = uint64_t{64} << 30;
constexpr uint64_t kMinPartBytes = uint64_t{64} << 10;
constexpr uint64_t kDefaultPartBytes = uint64_t{256} << 20;

// Never destroyed: a session may write its files while the process exits.
ProgrammaticCapture& TheCapture() {
  static auto* const capture = new ProgrammaticCapture(WorkerRuntime::Get().sessions().get(),
                                                       WorkerRuntime::Get().identity());
  return *capture;
}

int CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return JOBSCOPE_OK;
    case absl::StatusCode::kInvalidArgument:
      return JOBSCOPE_E_INVALID;
    case absl::StatusCode::kPermissionDenied:
      return JOBSCOPE_E_REFUSED;
    case absl::StatusCode::kAlreadyExists:
      return JOBSCOPE_E_BUSY;
    case absl::StatusCode::kAborted:
      return JOBSCOPE_E_FORKED;
    case absl::StatusCode::kFailedPrecondition:
      return JOBSCOPE_E_STATE;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kUnavailable:
      return JOBSCOPE_E_IO;
    default:
      return JOBSCOPE_E_INTERNAL;
  }
}

int Answer(const absl::Status& status, char* error, size_t error_size) {
  CopyOut(std::string(status.message()), error, error_size);
  return CodeOf(status);
}

absl::Status CheckRange(const char* name, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("options.", name, " = ", value, " is out of range: ", low, " to ", high));
}

absl::Status CheckForked() {
  // Precedes the first lock of jobscope: in a child that is forked during the first call, that lock
  // would stay locked forever.
  InstallForkGuard();
  if (!InForkedChild()) return absl::OkStatus();
  return absl::AbortedError(
      "a forked child cannot capture itself: it lacks its parent's threads; start it with exec or "
      "spawn");
}

// Checks whether a capture may start. The end of a capture needs none of these checks.
absl::Status CheckStart() {
  if (absl::Status forked = CheckForked(); !forked.ok()) return forked;
  if (absl::Status room = CheckRoomToEnter(); !room.ok()) return room;
  const auto environment = ReadEnvironment();
  if (!environment.ok()) return environment.status();
  if (environment->disable) {
    return absl::PermissionDeniedError("JOBSCOPE_DISABLE is set: no captures in this process");
  }
  if (!WorkerRuntime::Create(SteadyNow() + WorkerRuntime::kBusyLimit)) {
    return absl::AlreadyExistsError(
        "another thread is preparing the profiler of this process; try again later");
  }
  return absl::OkStatus();
}

absl::Status MakeRequest(const char* logdir, const jobscope_capture_options* given,
                         ProgrammaticRequest* request) {
  jobscope_capture_options options;
  if (!CopyIn(given, offsetof(jobscope_capture_options, max_trace_bytes), &options)) {
    return absl::InvalidArgumentError(
        "options.size is not set: write options.size = sizeof(options)");
  }
  if (logdir == nullptr || logdir[0] == '\0') {
    return absl::InvalidArgumentError("no logdir was given");
  }
  if (strnlen(logdir, kMaxLogdirBytes) == kMaxLogdirBytes) {
    return absl::InvalidArgumentError("the logdir is longer than 4,095 bytes");
  }
  request->logdir = logdir;

  SessionOptions& capture = request->capture;
  absl::StatusOr<RecordingOptions> recording =
      given == nullptr ? RecordingOptions() : FromC(options);
  absl::Status status = recording.status();
  if (recording.ok()) capture.recording = *std::move(recording);

  if (options.max_trace_bytes != 0) {
    status.Update(CheckRange("max_trace_bytes", static_cast<int64_t>(options.max_trace_bytes),
                             limits::kMinStoreBytes, kMaxProgrammaticStoreBytes));
  }
  capture.store_bytes =
      options.max_trace_bytes != 0 ? options.max_trace_bytes : limits::kDefaultStoreBytes;
  capture.store_setting = "max_trace_bytes";
  status.Update(CheckRange("lookback_ms", static_cast<int64_t>(options.lookback_ms), 0,
                           absl::ToInt64Milliseconds(limits::kMaxLookback)));
  capture.lookback = absl::Milliseconds(static_cast<int64_t>(options.lookback_ms));
  if (options.part_limit_bytes != 0) {
    status.Update(CheckRange("part_limit_bytes", static_cast<int64_t>(options.part_limit_bytes),
                             kMinPartBytes, xspace::kMaxPartBytes));
    request->part_limit_bytes = options.part_limit_bytes;
  } else {
    request->part_limit_bytes = kDefaultPartBytes;
  }
  capture.duration = absl::InfiniteDuration();
  capture.peer = "this process";
  return status;
}

absl::Status StartCapture(const char* logdir, const jobscope_capture_options* options,
                          std::optional<StepRange> steps) {
  if (absl::Status status = CheckStart(); !status.ok()) return status;
  if (steps && steps->last < steps->first) {
    return absl::InvalidArgumentError(
        absl::StrCat("the last step, ", steps->last, ", comes before the first, ", steps->first));
  }
  ProgrammaticRequest request;
  if (absl::Status status = MakeRequest(logdir, options, &request); !status.ok()) return status;
  if (steps && request.capture.lookback > absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        "lookback_ms and a range of steps exclude each other: steps are recorded whole, from the "
        "first to the last. Give lookback_ms to a capture that starts at once, or an earlier first "
        "step");
  }
  request.capture.steps = steps;
  DeliverAtExit([](absl::Time deadline) { TheCapture().FinishBeforeExit(deadline); });
  return TheCapture().Start(std::move(request));
}

absl::Status StopCapture(jobscope_capture_result* result) {
  if (absl::Status status = CheckForked(); !status.ok()) return status;
  absl::StatusOr<ProgrammaticResult> stopped = TheCapture().Stop();
  if (!stopped.ok()) return stopped.status();
  if (result == nullptr) return absl::OkStatus();
  // A caller that was compiled with an older header has a shorter struct.
  jobscope_capture_result full;
  std::memset(&full, 0, sizeof(full));
  full.size = std::min(result->size, sizeof(full));
  CopyOut(stopped->run_directory, full.run_directory, sizeof(full.run_directory));
  full.events = stopped->events;
  full.lost = stopped->lost.value_or(UINT64_MAX);
  std::memcpy(result, &full, full.size);
  return absl::OkStatus();
}

}  // namespace
}  // namespace jobscope

extern "C" {

int jobscope_capture_start(const char* logdir, const jobscope_capture_options* options, char* error,
                           size_t error_size) {
  return jobscope::WithoutException(error, error_size, [&] {
    return jobscope::Answer(jobscope::StartCapture(logdir, options, std::nullopt), error,
                            error_size);
  });
}

int jobscope_capture_steps(const char* logdir, int64_t first, int64_t last,
                           const jobscope_capture_options* options, char* error,
                           size_t error_size) {
  return jobscope::WithoutException(error, error_size, [&] {
    return jobscope::Answer(
        jobscope::StartCapture(logdir, options, jobscope::StepRange{first, last}), error,
        error_size);
  });
}

int jobscope_capture_stop(jobscope_capture_result* result, char* error, size_t error_size) {
  return jobscope::WithoutException(error, error_size, [&] {
    return jobscope::Answer(jobscope::StopCapture(result), error, error_size);
  });
}

}  // extern "C"
