// SPDX-License-Identifier: Apache-2.0
#include "client/cli/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/exit_code.h"
#include "client/cli/suggestion.h"
#include "client/cli/versions.h"
#include "common/arguments/parse_arguments.h"
#include "common/options/recording_options.h"
#include "common/process/identity.h"
#include "common/run/run_directory.h"

namespace jobscope {
namespace {

// A day: far beyond any capture that fits into a store, and far below any overflow.
constexpr int64_t kMaxMs = 86'400'000;

constexpr char kAddresses[] =
    "workers, comma-separated: host:port, grpc://host:port, [v6]:port, unix:/path, "
    "node[01-16]:port, dns:///name:port, @file, @directory of *.addr files";
absl::Status CheckRange(const char* flag, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--", flag, "=", value, " is out of range; give ", low, " to ", high));
}

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

absl::Status CheckCapture(const Flags& flags) {
  const struct {
    const char* flag;
    int64_t value, low, high;
  } ranges[] = {
      {"max_duration_ms", flags.max_duration_ms, 1, kMaxMs},
      {"num_tracing_attempts", flags.num_tracing_attempts, 1, 1000},
      {"delay_ms", flags.delay_ms, 0, 3'600'000},
      {"transfer_timeout_ms", flags.transfer_timeout_ms, 1, kMaxMs},
      {"max_trace_mb", flags.max_trace_mb, 0, 1 << 24},
      {"min_workers", flags.min_workers.value_or(1), 1, INT_MAX},
      {"steps", flags.steps.value_or(1), 1, 1'000'000},
      {"start_step", flags.start_step.value_or(0), 0, INT64_MAX / 2},
      {"lookback_ms", flags.lookback_ms, 0, 3'600'000},
      {"part_mb", flags.part_mb, 1, 1900},
      {"resume_timeout_ms", flags.resume_timeout_ms, 0, kMaxMs},
      {"sample", flags.sample.value_or(1), 1, INT_MAX},
  };
  for (const auto& range : ranges) {
    absl::Status in_range = CheckRange(range.flag, range.value, range.low, range.high);
    if (!in_range.ok()) return in_range;
  }
  absl::Status status = CheckDuration(flags);
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

absl::Status Check(const Flags& flags) {
  if (flags.service_addr.empty()) {
    return absl::InvalidArgumentError("--service_addr is missing; name the workers, host:port,...");
  }
  absl::Status status = CheckRange("connect_timeout_ms", flags.connect_timeout_ms, 1, kMaxMs);
  status.Update(CheckRange("max_parallel", flags.max_parallel, 1, 16384));
  if (flags.verb == Verb::kCapture) status.Update(CheckCapture(flags));
  if (flags.server && !flags.session_id.empty()) {
    status.Update(absl::InvalidArgumentError(
        "--server and --session_id exclude each other: a server that closes ends every session"));
  }
  return status;
}

void AddCommon(CLI::App* app, Flags* flags) {
  app->add_option("--service_addr", flags->service_addr, kAddresses);
  app->add_option("--connect_timeout_ms", flags->connect_timeout_ms,
                  "time limit in ms for one connection attempt [1..86400000]")
      ->capture_default_str();
  app->add_option("--max_parallel", flags->max_parallel,
                  "largest number of workers to connect to at the same time")
      ->capture_default_str();
  app->add_flag("--json", flags->json, "print only the manifest on stdout");
  app->add_flag("--quiet", flags->quiet, "print no progress on stderr");
}

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

void AddCapture(CLI::App* app, Flags* flags, absl::Status* bad_value) {
  app->add_option("--logdir", flags->logdir,
                  "write traces to <logdir>/plugins/profile/<run> on this machine");
  app->add_flag("--report", flags->report,
                "also print which worker is slow, and why; write the page <run>/report.html");
  app->add_option("--duration_ms", flags->duration_ms, "length of the recording in ms")
      ->capture_default_str();
  app->add_option("--session_id", flags->session_id,
                  "name of the run; default: the local time, made unique");
  app->add_option("--num_tracing_attempts", flags->num_tracing_attempts,
                  "attempts per worker to connect, or to find it idle [1..1000]")
      ->capture_default_str();
  app->add_option("--delay_ms", flags->delay_ms, "wait this many ms before recording [0..3600000]")
      ->capture_default_str();
  AddRecording(app, &flags->recording, bad_value);
  app->add_option(
         "--transfer_timeout_ms", flags->transfer_timeout_ms,
         "time limit in ms after the end of the recording: for the next 64 KiB of the trace "
         "(native), for the whole answer (stock workers)")
      ->capture_default_str();
  app->add_option("--max_trace_mb", flags->max_trace_mb,
                  "limit each worker's trace to this many MiB; 0: only the disk limits it")
      ->capture_default_str();
  app->add_option("--max_duration_ms", flags->max_duration_ms,
                  "largest --duration_ms, and time limit in ms of --steps")
      ->capture_default_str();
  app->add_option("--min_workers", flags->min_workers,
                  "record nothing if fewer workers than this can be armed");
  app->add_option(
      "--steps", flags->steps,
      "record this many whole steps, the same ones in all workers, instead of --duration_ms");
  app->add_option("--start_step", flags->start_step,
                  "the first step to record; default: the first that all workers can still reach");
  app->add_option(
         "--lookback_ms", flags->lookback_ms,
         "also include events from this many ms before the start; with --duration_ms=0 only these")
      ->capture_default_str();
  app->add_option("--sample", flags->sample,
                  "capture only this many of the workers, spread over hosts");
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
  app->add_option("--part_mb", flags->part_mb,
                  "split a larger trace into files of this many MiB [1..1900]; native only")
      ->capture_default_str();
  app->add_option(
         "--file_mode", flags->file_mode,
         "mode of the files, octal, regardless of the umask; directories are set accordingly")
      ->capture_default_str();
  app->add_option(
         "--resume_timeout_ms", flags->resume_timeout_ms,
         "time limit in ms for restoring a connection that was lost while recording; native only")
      ->capture_default_str();
}

void AddCredentials(CLI::App* app, CredentialFlags* credentials) {
  constexpr char kGroup[] =
      "Credentials (default: JOBSCOPE_TLS_CA, _CERT, _KEY, JOBSCOPE_TOKEN_FILE)";
  app->add_option("--tls_ca", credentials->tls_ca,
                  "use TLS; PEM file of the CA that signed the workers' certificates")
      ->group(kGroup);
  app->add_option("--tls_cert", credentials->tls_cert,
                  "PEM file of a certificate for workers that require one")
      ->group(kGroup);
  app->add_option("--tls_key", credentials->tls_key, "PEM file of the key of --tls_cert")
      ->group(kGroup);
  app->add_option("--token_file", credentials->token_file,
                  "file of the token for workers that require one")
      ->group(kGroup);
  app->add_option("--tls_server_name", credentials->tls_server_name,
                  "name in the workers' certificates, if it differs from the address (a tunnel)")
      ->group(kGroup);
}

// Returns "did you mean --duration_ms? " for the first unknown argument, or nothing.
std::string MaybeMeant(const CLI::App& app, const std::vector<std::string>& unknown) {
  if (unknown.empty()) return "";
  const std::string first = unknown[0].substr(0, unknown[0].find('='));
  const bool is_flag = absl::StartsWith(first, "-");
  std::vector<std::string> known;
  if (is_flag) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back(name);
    }
  } else {
    known = {"capture", "check", "stop"};
  }
  const auto meant =
      Suggestion(first.substr(std::min(first.find_first_not_of('-'), first.size())), known);
  if (!meant.has_value()) return "";
  return absl::StrCat("did you mean ", is_flag ? "--" : "", *meant, "? ");
}

FlagsResult Print(std::string text, int exit_code) {
  return {std::nullopt, std::move(text), exit_code};
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

FlagsResult ParseVerb(Verb verb, const std::string& program, std::vector<std::string> arguments) {
  Flags flags;
  flags.verb = verb;
  const char* const description =
      verb == Verb::kCapture
          ? "Records many workers at the same time and gathers their traces in one run."
      : verb == Verb::kCheck
          ? "Lists workers, their state and their collectors. Records nothing."
          : "Ends a running capture early; the client that started it receives the data. With "
            "--server, closes the workers' servers.";
  CLI::App app(description, program);
  app.set_version_flag("--version", std::string("jobscope ") + Version());
  AddCommon(&app, &flags);
  AddCredentials(&app, &flags.credentials);
  absl::Status bad_value;
  if (verb == Verb::kCapture) AddCapture(&app, &flags, &bad_value);
  if (verb == Verb::kCheck) {
    app.add_flag("--verbose", flags.verbose,
                 "also list the collectors that have nothing to record in a worker, and why");
  }
  if (verb == Verb::kStop) {
    app.add_option("--session_id", flags.session_id,
                   "session to end; default: the running one. Required for stock workers");
    app.add_flag("--server", flags.server,
                 "close the servers of workers that were started with JOBSCOPE_ALLOW_CLOSE=1. Only "
                 "a worker's program can start its server again");
  }
  app.footer(
      verb == Verb::kCapture
          ? "Verbs: capture check, stop, run, report, diff (each has its own --help).\n"
            "Exit code: 0 all workers delivered, 1 all delivered, but the result could not be "
            "printed or the manifest or the report could not be written, 2 usage, 3 some "
            "delivered, 4 none delivered, 130 interrupted."
      : verb == Verb::kCheck
          ? "Exit code: 0 all workers answered, 1 all answered, but the result could not be "
            "printed, 2 usage, 3 some answered, 4 none answered, 130 interrupted."
          : "Exit code: 0 all workers answered (--server: were closed), 1 all did, but the "
            "result could not be printed, 2 usage, 3 some did, 4 none did, 130 interrupted.");
  try {
    ParseArguments(&app, arguments);
  } catch (const CLI::CallForHelp&) {
    return Print(app.help(), 0);
  } catch (const CLI::CallForVersion& version) {
    return Print(absl::StrCat(version.what(), "\n"), 0);
  } catch (const CLI::ParseError& error) {
    return Print(absl::StrCat(program, ": ", error.what(), "; ", MaybeMeant(app, app.remaining()),
                              program, " --help lists the flags\n"),
                 kExitUsage);
  }
  // With --steps the duration applies only to workers without steps.
  if (flags.steps.has_value() && app.count("--duration_ms") == 0) {
    flags.duration_ms = std::min(flags.duration_ms, std::max<int64_t>(flags.max_duration_ms, 1));
  }
  absl::Status status = bad_value;
  status.Update(Check(flags));
  if (!status.ok()) {
    return Print(absl::StrCat(program, ": ", std::string(status.message()), "\n"), kExitUsage);
  }
  return {std::move(flags), "", 0};
}

}  // namespace

FlagsResult ParseFlags(const std::vector<std::string>& arguments) {
  const std::string name = arguments.empty() ? "capture" : BaseName(arguments[0]);
  std::vector<std::string> rest(arguments.empty() ? arguments.end() : arguments.begin() + 1,
                                arguments.end());
  const bool as_jobscope = absl::StartsWith(name, "jobscope");
  const std::string first = rest.empty() ? "" : rest[0];
  if (first == "--versions") return Print(LinkedVersions(), 0);
  const struct {
    const char* word;
    Verb verb;
  } verbs[] = {{"capture", Verb::kCapture}, {"check", Verb::kCheck}, {"stop", Verb::kStop}};
  for (const auto& [word, verb] : verbs) {
    if (first != word) continue;
    if (verb == Verb::kCapture && !as_jobscope) break;
    rest.erase(rest.begin());
    return ParseVerb(verb, absl::StrCat(as_jobscope ? "jobscope" : "capture", " ", word), rest);
  }
  if (!as_jobscope) return ParseVerb(Verb::kCapture, "capture", rest);
  if (first == "--version") return Print(absl::StrCat("jobscope ", Version(), "\n"), 0);
  const std::string usage =
      "Usage: jobscope VERB [flags]\n"
      "  capture   record workers and gather their traces\n"
      "  check     list workers and their state; record nothing\n"
      "  stop      end a running capture early, keep its data\n"
      "  run       start a program whose training processes become workers\n"
      "  report    print which worker of a captured run is slow, and why\n"
      "  diff      compare two runs\n"
      "jobscope VERB --help lists the flags of a verb; jobscope --versions lists the linked "
      "libraries.\n";
  if (first == "--help" || first == "-h") return Print(usage, 0);
  if (first.empty()) return Print(usage, kExitUsage);
  const auto meant = Suggestion(first, {"capture", "check", "stop", "run", "report", "diff"});
  return Print(absl::StrCat("jobscope: unknown verb '", first, "'",
                            meant.has_value() ? absl::StrCat("; did you mean ", *meant, "?") : "",
                            "\n", usage),
               kExitUsage);
}

}  // namespace jobscope
