// SPDX-License-Identifier: Apache-2.0
#include "server/native/native_validation.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/options/recording_options.h"
#include "server/rpc/ceilings.h"

namespace jobscope {
namespace {

// Sets the start and the zero of the trace.
absl::Status SetTimes(const v1::Start& request, const StartContext& context,
                      StartCommand* command) {
  command->start_monotonic_ns =
      request.start_monotonic_ns() == 0 ? context.monotonic_ns : request.start_monotonic_ns();
  const auto max_delay_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(limits::kMaxStartDelay));
  const uint64_t earliest_ns = context.monotonic_ns - std::min(context.monotonic_ns, max_delay_ns);
  const uint64_t latest_ns = context.monotonic_ns + max_delay_ns;
  if (command->start_monotonic_ns < earliest_ns || command->start_monotonic_ns > latest_ns) {
    return OutOfRange("start.start_monotonic_ns", absl::StrCat(command->start_monotonic_ns),
                      absl::StrCat(earliest_ns, " to ", latest_ns, ", or 0 for now"),
                      "it is a time on this worker's MONOTONIC clock, which SyncClock reads");
  }
  const auto granted_ns = static_cast<uint64_t>(absl::ToInt64Nanoseconds(context.granted_lookback));
  command->zero_monotonic_ns =
      request.zero_monotonic_ns() == 0
          ? command->start_monotonic_ns - std::min(command->start_monotonic_ns, granted_ns)
          : request.zero_monotonic_ns();
  const auto max_zero_ns =
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(limits::kMaxZeroBeforeStart));
  if (command->zero_monotonic_ns > command->start_monotonic_ns ||
      command->start_monotonic_ns - command->zero_monotonic_ns > max_zero_ns) {
    return OutOfRange(
        "start.zero_monotonic_ns", absl::StrCat(command->zero_monotonic_ns),
        absl::StrCat("at most start.start_monotonic_ns, ", command->start_monotonic_ns,
                     ", and not more than ", absl::FormatDuration(limits::kMaxZeroBeforeStart),
                     " before it"));
  }
  if (request.zero_unix_ns() < 0) {
    return OutOfRange("start.zero_unix_ns", absl::StrCat(request.zero_unix_ns()),
                      "0, for the worker's own clock, or more");
  }
  command->zero_unix_ns = request.zero_unix_ns() != 0
                              ? request.zero_unix_ns()
                              : context.realtime_ns +
                                    static_cast<int64_t>(command->zero_monotonic_ns) -
                                    static_cast<int64_t>(context.monotonic_ns);
  return absl::OkStatus();
}

// Sets what the client measured of this worker's clock.
absl::Status SetClock(const v1::Start& request, StartCommand* command) {
  if (request.clock_uncertainty_ns() > limits::kMaxClockUncertaintyNs) {
    return OutOfRange("start.clock_uncertainty_ns", absl::StrCat(request.clock_uncertainty_ns()),
                      absl::StrCat("0 to ", limits::kMaxClockUncertaintyNs));
  }
  command->clock_uncertainty_ns = request.clock_uncertainty_ns();
  if (request.clock_offset_ns() > limits::kMaxClockOffsetNs ||
      request.clock_offset_ns() < -limits::kMaxClockOffsetNs) {
    return OutOfRange("start.clock_offset_ns", absl::StrCat(request.clock_offset_ns()),
                      absl::StrCat(-limits::kMaxClockOffsetNs, " to ", limits::kMaxClockOffsetNs));
  }
  command->clock_offset_ns = request.clock_offset_ns();
  return absl::OkStatus();
}

absl::Status SetDuration(const v1::Start& request, const StartContext& context,
                         StartCommand* command) {
  const uint64_t max_duration_ns = limits::kMaxDurationMs * 1'000'000;
  const bool dump = context.wanted_lookback > absl::ZeroDuration() && !request.has_steps();
  if (request.duration_ns() > max_duration_ns || (request.duration_ns() == 0 && !dump)) {
    return OutOfRange("start.duration_ns", absl::StrCat(request.duration_ns()),
                      absl::StrCat("1 to ", max_duration_ns), "0 is for a lookback without steps");
  }
  if (request.duration_ns() > context.max_duration_ms * 1'000'000) {
    return OverCeiling("start.duration_ns", absl::StrCat(request.duration_ns()),
                       absl::StrCat(context.max_duration_ms, " ms"), "JOBSCOPE_MAX_DURATION_MS",
                       "options.max_duration_ms");
  }
  command->duration = absl::Nanoseconds(static_cast<int64_t>(request.duration_ns()));
  // The start may lie an hour back, and rings that record continuously may hold that hour.
  command->max_lookback = absl::Milliseconds(static_cast<int64_t>(context.max_duration_ms));
  return absl::OkStatus();
}

absl::Status SetSteps(const v1::StepWindow& steps, StartCommand* command) {
  if (steps.last() < steps.first()) {
    return OutOfRange("start.steps.last", absl::StrCat(steps.last()),
                      absl::StrCat("at least start.steps.first, ", steps.first()));
  }
  if (steps.by_ordinal() && steps.first() < 1) {
    return OutOfRange("start.steps.first", absl::StrCat(steps.first()), "1 or more, by_ordinal");
  }
  command->steps = StepRange{steps.first(), steps.last(), steps.by_ordinal()};
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateStop(const v1::StopRequest& request) {
  return CheckSize("session_id", request.session_id().size(), limits::kMaxSessionIdBytes);
}

absl::StatusOr<SessionOptions> ValidateArm(const v1::Arm& request, const CallContext& context) {
  absl::Status status =
      CheckSize("arm.session_id", request.session_id().size(), limits::kMaxSessionIdBytes);
  auto recording = FromProto(request);
  status.Update(recording.status());
  const auto max_lookback_ns =
      static_cast<uint64_t>(absl::ToInt64Nanoseconds(limits::kMaxLookback));
  if (request.lookback_ns() > max_lookback_ns) {
    status.Update(OutOfRange("arm.lookback_ns", absl::StrCat(request.lookback_ns()),
                             absl::StrCat("0 to ", max_lookback_ns)));
  }
  if (request.store_bytes() != 0 && request.store_bytes() < limits::kMinStoreBytes) {
    status.Update(OutOfRange("arm.store_bytes", absl::StrCat(request.store_bytes()),
                             absl::StrCat("0, for the worker's own of ", context.store_bytes,
                                          ", or at least ", limits::kMinStoreBytes)));
  }
  if (!status.ok()) return status;
  status = CheckLevelCeilings("arm.", *recording, context.ceilings);
  if (request.lookback_ns() > context.ceilings.duration_ms * 1'000'000) {
    status.Update(OverCeiling("arm.lookback_ns", absl::StrCat(request.lookback_ns()),
                              absl::StrCat(context.ceilings.duration_ms, " ms"),
                              "JOBSCOPE_MAX_DURATION_MS", "options.max_duration_ms"));
  }
  if (!status.ok()) return status;
  SessionOptions options;
  options.recording = *std::move(recording);
  options.session_id = request.session_id();
  options.peer = context.peer;
  options.on_command = true;
  options.record_ahead = !request.by_steps();
  options.lookback = absl::Nanoseconds(static_cast<int64_t>(request.lookback_ns()));
  options.max_trace_bytes = context.ceilings.trace_bytes;
  options.store_bytes = request.store_bytes() == 0
                            ? context.store_bytes
                            : std::min(request.store_bytes(), context.store_bytes);
  return options;
}

absl::StatusOr<StartCommand> ValidateStart(const v1::Start& request, const StartContext& context) {
  StartCommand command;
  absl::Status status = SetTimes(request, context, &command);
  if (status.ok()) status = SetClock(request, &command);
  if (status.ok()) status = SetDuration(request, context, &command);
  if (status.ok() && request.has_steps()) status = SetSteps(request.steps(), &command);
  if (!status.ok()) return status;
  return command;
}

absl::Status ValidateResume(const v1::Resume& request) {
  if (request.capture_key().size() != limits::kCaptureKeyBytes) {
    return OutOfRange("resume.capture_key", absl::StrCat(request.capture_key().size(), " bytes"),
                      absl::StrCat(limits::kCaptureKeyBytes, " bytes, as received in `armed`"));
  }
  if (request.next_item() == 0) return OutOfRange("resume.next_item", "0", "1 or more");
  return absl::OkStatus();
}

}  // namespace jobscope
