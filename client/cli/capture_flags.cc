// SPDX-License-Identifier: Apache-2.0
#include "client/cli/capture_flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "client/cli/flags.h"
#include "client/cli/verbs.h"
#include "common/options/recording_options.h"
#include "common/run/outcome.h"
#include "common/run/run_directory.h"

namespace jobscope {
namespace {

// Rejects flags that tensorflow.ProfilerService cannot carry.
absl::Status CheckNativeFlags(const Flags& flags) {
  if (flags.start_step.has_value() && !flags.steps.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--start_step=", *flags.start_step,
                     " says where steps begin, but not how many; give --steps=N too"));
  }
  if (flags.steps.has_value() && flags.lookback_ms > 0) {
    return absl::InvalidArgumentError(
        "--steps and --lookback_ms exclude each other: steps are recorded whole, from the first to "
        "the last. Give --lookback_ms with --duration_ms, or an earlier --start_step");
  }
  if (flags.protocol != Protocol::kTensorflow) return absl::OkStatus();
  const std::pair<const char*, bool> given[] = {{"--steps", flags.steps.has_value()},
                                                {"--lookback_ms", flags.lookback_ms > 0}};
  for (const auto& [flag, is_given] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " needs the native protocol; leave out --protocol=tensorflow"));
  }
  return absl::OkStatus();
}

// Zero is a valid duration, too: it dumps what was recorded before.
absl::Status CheckDuration(const Flags& flags) {
  if (flags.duration_ms == 0) {
    if (flags.steps.has_value()) {
      return absl::InvalidArgumentError(
          "--duration_ms=0 and --steps exclude each other: leave one of them out");
    }
    if (flags.lookback_ms > 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--duration_ms=0 is out of range; give 1 to ", flags.max_duration_ms,
                     ", or add --lookback_ms=K for events from before the start"));
  }
  if (flags.duration_ms >= 1 && flags.duration_ms <= flags.max_duration_ms) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--duration_ms=", flags.duration_ms, " is out of range; give 1 to ",
                   flags.max_duration_ms, ", or raise --max_duration_ms"));
}

// The range of --duration_ms depends on other flags: CheckDuration.
constexpr NumberFlag kCaptureNumbers[] = {
    {"steps", &Flags::steps, 1, 1'000'000,
     "record this many whole steps, the same ones in all workers, instead of --duration_ms"},
    {"start_step", &Flags::start_step, 0, INT64_MAX / 2,
     "the first step to record; default: the first that all workers can still reach"},
    {"lookback_ms", &Flags::lookback_ms, 0, 3'600'000,
     "also include events from this many ms before the start; with --duration_ms=0 only these"},
    {"max_duration_ms", &Flags::max_duration_ms, 1, kMaxMs,
     "largest --duration_ms, and time limit in ms of --steps"},
    {"delay_ms", &Flags::delay_ms, 0, 3'600'000, "wait this many ms before recording"},
    {"min_workers", &Flags::min_workers, 1, INT_MAX,
     "record nothing if fewer workers than this can be armed"},
    {"sample", &Flags::sample, 1, INT_MAX,
     "capture only this many of the workers, spread over hosts"},
    {"num_tracing_attempts", &Flags::num_tracing_attempts, 1, 1000,
     "attempts per worker to connect, or to find it idle"},
    {"transfer_timeout_ms", &Flags::transfer_timeout_ms, 1, kMaxMs,
     "time limit in ms after the end of the recording: for the next 64 KiB of the trace (native), "
     "for the whole answer (stock workers)"},
    {"resume_timeout_ms", &Flags::resume_timeout_ms, 0, kMaxMs,
     "time limit in ms for restoring a connection that was lost while recording; native only"},
    {"max_trace_mb", &Flags::max_trace_mb, 0, 1 << 24,
     "limit each worker's trace to this many MiB; 0: only the disk limits it"},
    {"part_mb", &Flags::part_mb, 1, 1900,
     "split a larger trace into files of this many MiB; native only"},
};

// Adds the flags of the recording options. `bad_value` receives the first error.
void AddRecording(CLI::App* app, RecordingOptions* recording, absl::Status* bad_value) {
  for (const RecordingOption& option : AllRecordingOptions()) {
    const auto set = [recording, bad_value, name = option.name](const std::string& text) {
      bad_value->Update(SetOption(kFromFlags, name, text, recording));
    };
    const std::string flag = absl::StrCat("--", option.name);
    if (option.kind == RecordingOption::Kind::kSwitch) {
      app->add_flag_function(
          flag, [set](int64_t count) { set(count > 0 ? "1" : "0"); }, option.help);
      continue;
    }
    CLI::Option* const added = app->add_option_function<std::string>(flag, set, option.help);
    added->default_str(OptionText(*recording, option.name));
    if (option.kind == RecordingOption::Kind::kNumber) added->type_name("INT");
  }
}

// Returns the other verbs of the program, for the help of the one that needs no name.
std::string OtherVerbs() {
  std::vector<std::string> names = VerbNames();
  names.erase(std::remove(names.begin(), names.end(), "capture"), names.end());
  return absl::StrJoin(names, ", ");
}

}  // namespace

void AddCaptureFlags(CLI::App* app, Flags* flags, absl::Status* bad_value) {
  app->description("Records many workers at the same time and gathers their traces in one run.");
  app->footer(absl::StrCat(
      "Verbs: capture ", OtherVerbs(), " (each has its own --help).\n",
      "Exit code: 0 all workers delivered, 1 all delivered, but the result could not be printed or "
      "the manifest or the report could not be written, 2 usage, 3 some delivered, 4 none "
      "delivered, 130 interrupted."));
  app->add_option("--logdir", flags->logdir,
                  "write traces to <logdir>/plugins/profile/<run> on this machine");
  app->add_flag("--report", flags->report,
                "also print which worker is slow, and why; write the page <run>/report.html");
  app->add_option("--duration_ms", flags->duration_ms,
                  "length of the recording in ms [1..--max_duration_ms]")
      ->capture_default_str();
  app->add_option("--session_id", flags->session_id,
                  "name of the run; default: the local time, made unique");
  AddNumbers(kCaptureNumbers, app, flags);
  AddRecording(app, &flags->recording, bad_value);
  const auto set_protocol = [flags, bad_value](const std::string& text) {
    for (const Protocol protocol : {Protocol::kNative, Protocol::kTensorflow}) {
      if (text == Name(protocol)) flags->protocol = protocol;
    }
    if (flags->protocol.has_value() || text == kAnyProtocol) return;
    bad_value->Update(absl::InvalidArgumentError(
        absl::StrCat("--protocol=", text, " is not known; give auto, native or tensorflow")));
  };
  app->add_option_function<std::string>("--protocol", set_protocol,
                                        "auto (native if a worker speaks it), native or tensorflow")
      ->default_str(kAnyProtocol);
  app->add_option(
         "--file_mode", flags->file_mode,
         "mode of the files, octal, regardless of the umask; directories are set accordingly")
      ->capture_default_str();
}

absl::Status CheckCaptureFlags(const CLI::App& app, Flags* checked) {
  // With --steps the duration applies only to workers without steps.
  if (checked->steps.has_value() && app.count("--duration_ms") == 0) {
    checked->duration_ms =
        std::min(checked->duration_ms, std::max<int64_t>(checked->max_duration_ms, 1));
  }
  const Flags& flags = *checked;
  absl::Status status = CheckNumbers(kCaptureNumbers, flags);
  if (!status.ok()) return status;
  status = CheckDuration(flags);
  status.Update(CheckNativeFlags(flags));
  if (const auto mode = ParseFileMode(flags.file_mode); !mode.ok()) {
    status.Update(absl::InvalidArgumentError(
        absl::StrCat("--file_mode=", flags.file_mode, " ", mode.status().message())));
  }
  if (!status.ok()) return status;
  if (flags.logdir.empty()) {
    return absl::InvalidArgumentError("--logdir is missing; name the directory for the traces");
  }
  if (!flags.session_id.empty()) return CheckRunName(flags.session_id);
  return absl::OkStatus();
}

std::map<std::string, int64_t> CaptureNumbers(const Flags& flags) {
  std::map<std::string, int64_t> numbers;
  for (const absl::Span<const NumberFlag> each :
       {CommonNumbers(), absl::MakeSpan(kCaptureNumbers)}) {
    for (const NumberFlag& number : each) {
      if (const std::optional<int64_t> value = number.Of(flags)) numbers[number.name] = *value;
    }
  }
  return numbers;
}

}  // namespace jobscope
