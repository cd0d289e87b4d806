// SPDX-License-Identifier: Apache-2.0
#include "server/tensorflow/tensorflow_validation.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/options/recording_options.h"
#include "common/text/foreign_text.h"
#include "server/limits.h"
#include "server/rpc/ceilings.h"

namespace jobscope {
namespace {

absl::Status CheckCount(absl::string_view field, int count, int max_count) {
  if (count <= max_count) return absl::OkStatus();
  return OutOfRange(field, absl::StrCat(count, " entries"), absl::StrCat("at most ", max_count));
}

absl::Status CheckStrings(const tensorflow::ProfileRequest& request) {
  const tensorflow::ProfileOptions& opts = request.opts();
  struct {
    absl::string_view field;
    size_t bytes;
    size_t max_bytes;
  } const strings[] = {
      {"session_id", request.session_id().size(), limits::kMaxSessionIdBytes},
      {"opts.session_id", opts.session_id().size(), limits::kMaxSessionIdBytes},
      {"host_name", request.host_name().size(), limits::kMaxHostNameBytes},
      {"opts.override_hostname", opts.override_hostname().size(), limits::kMaxHostNameBytes},
      {"repository_root", request.repository_root().size(), limits::kMaxPathBytes},
      {"opts.repository_path", opts.repository_path().size(), limits::kMaxPathBytes},
  };
  for (const auto& string : strings) {
    if (auto status = CheckSize(string.field, string.bytes, string.max_bytes); !status.ok())
      return status;
  }
  return absl::OkStatus();
}

absl::Status CheckLists(const tensorflow::ProfileRequest& request) {
  const auto& configuration = request.opts().advanced_configuration();
  struct {
    absl::string_view field;
    int count;
    int max_count;
  } const lists[] = {
      {"tools", request.tools_size(), limits::kMaxTools},
      {"tool_options", static_cast<int>(request.tool_options().size()), limits::kMaxTools},
      {"opts.advanced_configuration", static_cast<int>(configuration.size()),
       limits::kMaxConfigurationKeys},
  };
  for (const auto& list : lists) {
    if (auto status = CheckCount(list.field, list.count, list.max_count); !status.ok())
      return status;
  }
  for (const std::string& tool : request.tools()) {
    if (auto status = CheckSize("tools", tool.size(), limits::kMaxToolBytes); !status.ok())
      return status;
  }
  for (const auto& [tool, options] : request.tool_options()) {
    const size_t bytes = std::max(tool.size(), options.output_formats().size());
    if (auto status = CheckSize("tool_options", bytes, limits::kMaxToolBytes); !status.ok())
      return status;
  }
  for (const auto& [key, value] : configuration) {
    auto status = CheckSize("a key of opts.advanced_configuration", key.size(),
                            limits::kMaxConfigurationKeyBytes);
    if (!status.ok()) return status;
    status = CheckSize("a value of opts.advanced_configuration", value.string_value().size(),
                       limits::kMaxConfigurationValueBytes);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Names the requested options that have no effect here. Does not name what every stock client sends
// unintentionally (max_events of a million, tools, paths); see docs/wire.md.
std::vector<std::string> NameIgnored(const tensorflow::ProfileRequest& request) {
  const tensorflow::ProfileOptions& opts = request.opts();
  constexpr uint64_t kStockMaxEvents = 1'000'000;
  std::vector<std::string> ignored;
  if (request.max_events() != 0 && request.max_events() != kStockMaxEvents)
    ignored.push_back("max_events");
  if (!request.tool_options().empty()) ignored.push_back("tool_options");
  if (opts.trace_options().host_traceme_filter_mask() != 0) {
    ignored.push_back("opts.trace_options.host_traceme_filter_mask");
  }
  if (opts.raise_error_on_start_failure()) ignored.push_back("opts.raise_error_on_start_failure");
  if (!opts.override_hostname().empty()) ignored.push_back("opts.override_hostname");
  // Sorted, because the map has no order: two workers must answer alike.
  std::set<absl::string_view> keys;
  for (const auto& entry : opts.advanced_configuration()) {
    if (!IsOptionKey(entry.first)) keys.insert(entry.first);
  }
  for (absl::string_view key : keys) {
    ignored.push_back(absl::StrCat("opts.advanced_configuration[\"",
                                   Printable(key, limits::kMaxIgnoredNameBytes), "\"]"));
  }
  if (ignored.size() > limits::kMaxIgnoredNamed) {
    const size_t more = ignored.size() - limits::kMaxIgnoredNamed;
    ignored.resize(limits::kMaxIgnoredNamed);
    ignored.push_back(absl::StrCat("and ", more, " more"));
  }
  return ignored;
}

absl::StatusOr<RecordingOptions> Recording(const tensorflow::ProfileOptions& opts) {
  absl::StatusOr<RecordingOptions> recording = FromProto(opts);
  // A device type other than ours means that our device tracer is not wanted.
  const auto type = opts.device_type();
  if (recording.ok() && type != tensorflow::ProfileOptions::UNSPECIFIED &&
      type != tensorflow::ProfileOptions::GPU) {
    recording->device_tracer_level = 0;
  }
  return recording;
}

// Lowers what is over the operator's ceilings, and names it in `ignored`: stock clients send levels
// that nobody chose, and that their users often cannot change.
void LowerLevels(const Ceilings& ceilings, RecordingOptions* recording,
                 std::vector<std::string>* ignored) {
  const struct {
    absl::string_view name;
    int* level;
    int ceiling;
  } each[] = {{"host", &recording->host_tracer_level, ceilings.levels.host},
              {"device", &recording->device_tracer_level, ceilings.levels.device},
              {"python", &recording->python_tracer_level, ceilings.levels.python}};
  for (const auto& entry : each) {
    if (*entry.level <= entry.ceiling) continue;
    ignored->push_back(absl::StrCat("opts.", entry.name, "_tracer_level = ", *entry.level,
                                    " (this worker's ceiling, JOBSCOPE_MAX_LEVELS, is ",
                                    entry.ceiling, ")"));
    *entry.level = entry.ceiling;
  }
}

absl::StatusOr<uint64_t> DurationMs(const tensorflow::ProfileRequest& request,
                                    const Ceilings& ceilings) {
  const bool from_opts = request.opts().duration_ms() != 0;
  const uint64_t duration_ms = from_opts ? request.opts().duration_ms() : request.duration_ms();
  const std::string range = absl::StrCat("1 to ", limits::kMaxDurationMs);
  if (duration_ms == 0) return OutOfRange("opts.duration_ms", "0", range, "duration_ms is 0 too");
  if (duration_ms > limits::kMaxDurationMs) {
    return OutOfRange(from_opts ? "opts.duration_ms" : "duration_ms", absl::StrCat(duration_ms),
                      range, "ask for less; a negative number arrives as a huge one");
  }
  if (duration_ms > ceilings.duration_ms) {
    return OverCeiling(from_opts ? "opts.duration_ms" : "duration_ms", absl::StrCat(duration_ms),
                       absl::StrCat(ceilings.duration_ms), "JOBSCOPE_MAX_DURATION_MS",
                       "options.max_duration_ms");
  }
  return duration_ms;
}

absl::StatusOr<std::optional<int64_t>> StartUnixNs(const tensorflow::ProfileOptions& opts,
                                                   absl::Time now) {
  if (opts.version() == 0 || opts.start_timestamp_ns() == 0) return std::nullopt;
  const uint64_t sent = opts.start_timestamp_ns();
  // Compared as unsigned first: absl::FromUnixNanos takes a signed number.
  const absl::Time start = sent > static_cast<uint64_t>(INT64_MAX)
                               ? absl::InfiniteFuture()
                               : absl::FromUnixNanos(static_cast<int64_t>(sent));
  if (start > now + limits::kMaxStartDelay) {
    return OutOfRange(
        "opts.start_timestamp_ns", absl::StrCat(sent),
        absl::StrCat("at most ", absl::FormatDuration(limits::kMaxStartDelay),
                     " from now, and this worker's clock says ", absl::ToUnixNanos(now)),
        "compare the clocks of the two hosts");
  }
  if (start < now - limits::kMaxStartAge) return std::nullopt;
  return static_cast<int64_t>(sent);
}

absl::StatusOr<ProfileCall> ValidateCommon(const tensorflow::ProfileRequest& request,
                                           const CallContext& context) {
  if (auto status = CheckStrings(request); !status.ok()) return status;
  if (auto status = CheckLists(request); !status.ok()) return status;
  auto recording = Recording(request.opts());
  if (!recording.ok()) return recording.status();
  ProfileCall call;
  call.options.session_id =
      request.session_id().empty() ? request.opts().session_id() : request.session_id();
  call.options.peer = context.peer;
  call.options.recording = *std::move(recording);
  call.options.store_bytes = context.store_bytes;
  call.options.max_trace_bytes = context.ceilings.trace_bytes;
  call.options.ignored = NameIgnored(request);
  LowerLevels(context.ceilings, &call.options.recording, &call.options.ignored);
  call.emit_xspace = request.emit_xspace();
  call.file_stem = FileStem(request.host_name(), context.own_host);
  return call;
}

absl::Status CheckDeadline(absl::string_view field, absl::Duration needed,
                           const CallContext& context) {
  const absl::Duration left = context.deadline - context.now;
  if (needed < left) return absl::OkStatus();
  return OutOfRange(
      field, absl::FormatDuration(needed),
      absl::StrCat("the call's own deadline is ", absl::FormatDuration(left), " away"),
      "it would end first and lose everything: ask for less, or set a later deadline");
}

}  // namespace

absl::StatusOr<ProfileCall> ValidateProfile(const tensorflow::ProfileRequest& request,
                                            const CallContext& context) {
  auto call = ValidateCommon(request, context);
  if (!call.ok()) return call;
  const auto duration_ms = DurationMs(request, context.ceilings);
  if (!duration_ms.ok()) return duration_ms.status();
  const auto start = StartUnixNs(request.opts(), context.now);
  if (!start.ok()) return start.status();
  call->options.duration = absl::Milliseconds(static_cast<int64_t>(*duration_ms));
  call->options.start_unix_ns = *start;
  const absl::Duration delay =
      start->has_value()
          ? std::max(absl::ZeroDuration(), absl::FromUnixNanos(**start) - context.now)
          : absl::ZeroDuration();
  auto status = CheckDeadline("delay + duration", delay + call->options.duration, context);
  if (!status.ok()) return status;
  return call;
}

absl::StatusOr<ProfileCall> ValidateStartContinuous(const tensorflow::ProfileRequest& request,
                                                    const CallContext& context) {
  auto call = ValidateCommon(request, context);
  if (!call.ok()) return call;
  // XProf's continuous mode is made for TPUs and sends host level 0, which would record nothing.
  if (call->options.recording.host_tracer_level == 0) {
    call->options.recording.host_tracer_level = std::min(2, context.ceilings.levels.host);
  }
  call->emit_xspace = true;
  return call;
}

absl::Status ValidateSnapshot(const tensorflow::GetSnapshotRequest& request) {
  const std::string& id = request.snapshot_session_id();
  const bool clean = std::all_of(id.begin(), id.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  });
  if (clean && id.size() <= limits::kMaxSnapshotIdBytes) return absl::OkStatus();
  return OutOfRange(
      "snapshot_session_id", absl::StrCat("\"", Printable(id, 64), "\""),
      absl::StrCat("at most ", limits::kMaxSnapshotIdBytes, " characters of [A-Za-z0-9_-]"));
}

absl::Status ValidateTerminate(const tensorflow::TerminateRequest& request) {
  return CheckSize("session_id", request.session_id().size(), limits::kMaxSessionIdBytes);
}

absl::StatusOr<MonitorCall> ValidateMonitor(const tensorflow::MonitorRequest& request,
                                            const CallContext& context) {
  if (request.duration_ms() > limits::kMaxMonitorMs) {
    return OutOfRange("duration_ms", absl::StrCat(request.duration_ms()),
                      absl::StrCat("0 to ", limits::kMaxMonitorMs));
  }
  if (request.monitoring_level() < 0 || request.monitoring_level() > limits::kMaxMonitoringLevel) {
    return OutOfRange("monitoring_level", absl::StrCat(request.monitoring_level()),
                      absl::StrCat("0 to ", limits::kMaxMonitoringLevel));
  }
  MonitorCall call;
  call.duration = absl::Milliseconds(static_cast<int64_t>(request.duration_ms()));
  call.timestamp = request.timestamp();
  if (auto status = CheckDeadline("duration_ms", call.duration, context); !status.ok())
    return status;
  return call;
}

std::string FileStem(absl::string_view text, absl::string_view fallback) {
  std::string stem(text.substr(0, limits::kMaxFileStemBytes));
  for (char& c : stem) {
    const bool kept =
        absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
    if (!kept) c = '_';
  }
  // A name of dots only is a directory.
  if (stem.find_first_not_of('.') != std::string::npos) return stem;
  return fallback.empty() ? "worker" : FileStem(fallback, {});
}

}  // namespace jobscope
