// SPDX-License-Identifier: Apache-2.0
#include "client/cli/capture.h"

#include <climits>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analysis/cli/capture_report.h"
#include "client/cli/base/exit.h"
#include "client/cli/base/exit_code.h"
#include "client/cli/base/targets.h"
#include "client/cli/capture_flags.h"
#include "client/cli/capture_interrupt.h"
#include "client/cli/flags.h"
#include "client/cli/logdir_marker.h"
#include "client/cli/sample.h"
#include "client/diagnosis/diagnoser.h"
#include "client/fan_out/fan_out.h"
#include "client/native/native_worker.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/descriptors.h"
#include "client/rpc/dial.h"
#include "client/run/write_pool.h"
#include "client/tensorflow/tensorflow_worker.h"
#include "client/terminal/progress.h"
#include "client/terminal/table.h"
#include "client/worker/worker_client.h"
#include "common/net/endpoint.h"
#include "common/options/recording_options.h"
#include "common/process/identity.h"
#include "common/run/manifest.h"
#include "common/run/manifest_json.h"
#include "common/run/run_directory.h"

namespace jobscope {
namespace {

// Free space that a run needs at least: for the manifest, and a small trace of each worker.
constexpr uint64_t kMinFreeBytes = 16 << 20;
constexpr uint64_t kMinFreeBytesPerWorker = 64 << 10;

// A connection and a spool file.
constexpr size_t kDescriptorsPerWorker = 2;

// Items are written to disk as they arrive: a write that waits for the disk must not delay the
// others.
constexpr size_t kSpoolThreads = 4;

FanOutOptions MakeFanOutOptions(const Flags& flags, const RunDirectory& directory) {
  FanOutOptions options;
  options.session_id = directory.run();
  options.repository_root = directory.repository();
  options.protocol = flags.protocol;
  options.duration = absl::Milliseconds(flags.duration_ms);
  options.max_duration = absl::Milliseconds(flags.max_duration_ms);
  options.lookback = absl::Milliseconds(flags.lookback_ms);
  if (flags.steps.has_value()) {
    options.steps = StepsWanted{static_cast<uint64_t>(*flags.steps), flags.start_step};
  }
  options.delay = absl::Milliseconds(flags.delay_ms);
  options.recording = flags.recording;
  options.attempts = static_cast<int>(flags.num_tracing_attempts);
  options.max_parallel = static_cast<size_t>(flags.max_parallel);
  if (flags.min_workers.has_value()) options.min_workers = static_cast<size_t>(*flags.min_workers);
  options.times.connect = absl::Milliseconds(flags.connect_timeout_ms);
  options.times.transfer = absl::Milliseconds(flags.transfer_timeout_ms);
  return options;
}

WorkerFactory MakeFactory(const Flags& flags, const RunDirectory& directory,
                          const DialOptions& dial, CallThreads* threads, WritePool* disk) {
  DialOptions unary = dial;
  const int64_t max_bytes = flags.max_trace_mb << 20;
  // The limit of a single message is 2^31 - 1 bytes.
  if (max_bytes != 0 && max_bytes <= INT_MAX) unary.max_reply_bytes = static_cast<int>(max_bytes);
  NativeWorkerOptions native;
  native.dial = dial;
  native.spool_directory = directory.path();
  native.max_trace_bytes = static_cast<uint64_t>(max_bytes);
  native.part_limit_bytes = static_cast<uint64_t>(flags.part_mb) << 20;
  native.resume_timeout = absl::Milliseconds(flags.resume_timeout_ms);
  return [unary, native, threads, disk](const Endpoint& to,
                                        Protocol protocol) -> std::unique_ptr<WorkerClient> {
    if (protocol == Protocol::kNative) {
      return std::make_unique<NativeWorker>(to, native, threads, disk);
    }
    return std::make_unique<TensorflowWorker>(Dial(to, unary), threads, ProbeTimes());
  };
}

void FillOptions(const Flags& flags, const RunDirectory& directory, Manifest* out) {
  Manifest& manifest = *out;
  manifest.run = directory.run();
  manifest.run_directory = directory.path();
  manifest.client_version = Version();
  manifest.duration_ms = static_cast<uint64_t>(flags.duration_ms);
  manifest.options_text["protocol"] = flags.protocol ? Name(*flags.protocol) : kAnyProtocol;
  manifest.options_numbers = CaptureNumbers(flags);
  for (const RecordingOption& option : AllRecordingOptions()) {
    const std::string value = OptionText(flags.recording, option.name);
    if (option.kind == RecordingOption::Kind::kText) {
      manifest.options_text[option.name] = value;
    } else {
      (void)absl::SimpleAtoi(value, &manifest.options_numbers[option.name]);
    }
  }
}

// Reduces `endpoints` to the sample; names the others in the manifest.
void TakeSample(size_t count, std::vector<Endpoint>* endpoints, Manifest* manifest) {
  std::vector<Endpoint> taken;
  const std::vector<size_t> sample = SpreadSample(*endpoints, count);
  auto next = sample.begin();
  for (size_t i = 0; i < endpoints->size(); ++i) {
    if (next != sample.end() && *next == i) {
      taken.push_back(std::move((*endpoints)[i]));
      ++next;
    } else {
      manifest->not_sampled.push_back((*endpoints)[i].address);
    }
  }
  *endpoints = std::move(taken);
}

absl::Status CheckMinWorkers(const Flags& flags, size_t workers) {
  if (!flags.min_workers.has_value() || *flags.min_workers <= static_cast<int64_t>(workers)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--min_workers=", *flags.min_workers, ", but only ", workers,
                   flags.sample.has_value() ? " are sampled" : " addresses are given",
                   "; lower it, or give more"));
}

void FillStart(const StartFacts& facts, Manifest* manifest) {
  if (facts.started.has_value()) manifest->started_unix_ns = absl::ToUnixNanos(*facts.started);
  manifest->start_spread_ns = facts.spread_ns;
  manifest->clock_uncertainty_ns = facts.clock_uncertainty_ns;
  manifest->lookback_ns = facts.lookback_ns;
  if (facts.steps.has_value()) {
    manifest->first_step = facts.steps->first;
    manifest->last_step = facts.steps->last;
    manifest->steps_by = facts.steps->by_ordinal         ? StepsBy::kOrdinal
                         : facts.workers_by_ordinal == 0 ? StepsBy::kNumber
                                                         : StepsBy::kMixed;
  }
}

// Adds the workers and what follows from them, including the exit code.
void Conclude(std::vector<WorkerResult> results, Manifest* manifest) {
  size_t delivered = 0;
  size_t duplicates = 0;
  for (WorkerResult& result : results) {
    delivered += IsDelivery(result.outcome.kind) ? 1 : 0;
    duplicates += result.outcome.kind == Outcome::kDuplicate ? 1 : 0;
    ManifestWorker& account = result.account;
    account.outcome = result.outcome.kind;
    account.phase = result.outcome.phase;
    account.reason = result.outcome.reason;
    account.grpc_code = result.outcome.grpc_code;
    manifest->workers.push_back(std::move(account));
  }
  FillTotals(manifest);
  manifest->exit_code = ExitCode(delivered, results.size() - duplicates);
}

// Publishes the run directory, and returns the manifest as JSON. A failure is reported, and the
// exit code is then no longer 0, although no worker failed.
std::string Publish(RunDirectory directory, Manifest* manifest) {
  bool has_files = false;
  for (const ManifestWorker& worker : manifest->workers) {
    has_files = has_files || !worker.files.empty();
  }
  if (has_files) {
    directory.RemoveIfEmpty();  // of its parts, those that could not be written
  } else {
    // If this fails, the empty run is listed in the logdir: no reason to omit its manifest.
    (void)directory.SetAside();
    manifest->run_directory = directory.path();
  }
  std::string json = ManifestJson(*manifest);
  const absl::Status written = directory.WriteManifest(json);
  if (written.ok()) return json;
  std::fprintf(stderr,
               "capture: the traces are as the table says, but their manifest is missing: %s\n",
               std::string(written.message()).c_str());
  if (manifest->exit_code == kExitAll) manifest->exit_code = kExitOutput;
  return ManifestJson(*manifest);
}

// Makes the report; returns its text. A failure is reported, and `exit_code` is then no longer 0.
std::string MakeReport(const std::string& run_directory, mode_t file_mode, int* exit_code) {
  std::string text;
  const absl::Status made = analysis::ReportOfCapture(run_directory, file_mode, &text);
  if (!made.ok()) {
    std::fprintf(stderr, "capture: the report is missing: %s\n",
                 std::string(made.message()).c_str());
    if (*exit_code == kExitAll) *exit_code = kExitOutput;
  }
  return text;
}

int RunCapture(const Flags& flags) {
  if (const absl::Status room = EnsureThreads(); !room.ok()) return UsageError(room);
  CaptureInterrupt interrupt;
  absl::StatusOr<Targets> targets = PrepareTargets(flags);
  if (!targets.ok()) return UsageError(targets.status());
  std::vector<Endpoint>& endpoints = targets->endpoints;
  Manifest manifest;
  if (flags.sample.has_value()) {
    TakeSample(static_cast<size_t>(*flags.sample), &endpoints, &manifest);
  }
  const size_t total = endpoints.size();
  if (const absl::Status enough = CheckMinWorkers(flags, total); !enough.ok()) {
    return UsageError(enough);
  }
  const absl::Status descriptors = EnsureDescriptors(total, kDescriptorsPerWorker);
  if (!descriptors.ok()) return UsageError(descriptors);
  const mode_t file_mode = ParseFileMode(flags.file_mode).value_or(kPrivateFileMode);
  interrupt.OnPreparing();
  const absl::StatusOr<RunDirectory> directory = RunDirectory::Create(
      {flags.logdir, flags.session_id, kMinFreeBytes + total * kMinFreeBytesPerWorker, file_mode});
  if (!directory.ok()) return UsageError(directory.status());
  interrupt.OnDirectory(*directory);

  Progress progress(Progress::ModeFor(flags.quiet));
  std::vector<std::string> stems = FileStems(endpoints);
  Diagnoser diagnoser(targets->dial.credentials);  // outlives the threads
  WritePool disk(kSpoolThreads);                   // likewise
  CallThreads threads;                             // outlives the fan-out and its workers
  if (!threads.started().ok()) {
    directory->RemoveIfEmpty();
    return UsageError(threads.started());
  }
  LogdirMarker marker(&*directory, &disk);
  const DeliveryWriter writer = [&](size_t index, Delivery* delivery, ManifestWorker* account) {
    marker.OnDelivery();
    return delivery->Write(*directory, stems[index], account);
  };
  FanOut fan_out(std::move(endpoints), stems, MakeFanOutOptions(flags, *directory),
                 diagnoser.Wrap(MakeFactory(flags, *directory, targets->dial, &threads, &disk)),
                 writer, &progress);
  interrupt.OnFanOut(&fan_out);
  std::vector<WorkerResult> results = fan_out.Run();
  if (const absl::Status marked = marker.Await(); !marked.ok()) {
    std::fprintf(stderr, "capture: TensorBoard may not find this run: %s\n",
                 std::string(marked.message()).c_str());
  }

  FillOptions(flags, *directory, &manifest);
  FillStart(fan_out.facts(), &manifest);
  Conclude(std::move(results), &manifest);
  std::string text = Publish(*directory, &manifest);
  if (!flags.json) text = CaptureTable(manifest);
  int exit_code = *manifest.exit_code;
  if (flags.report) {
    const std::string report = MakeReport(manifest.run_directory, file_mode, &exit_code);
    if (!flags.json && !report.empty()) absl::StrAppend(&text, "\n", report);
  }
  ExitAtOnce(&threads, PrintResult(text, exit_code));
}

}  // namespace

const WorkerVerb kCaptureVerb = {AddCaptureFlags, CheckCaptureFlags, RunCapture};

}  // namespace jobscope
