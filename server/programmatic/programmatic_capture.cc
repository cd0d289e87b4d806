// SPDX-License-Identifier: Apache-2.0
#include "server/programmatic/programmatic_capture.h"

#include <unistd.h>

#include <cctype>
#include <chrono>
#include <exception>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"
#include "common/log/log.h"
#include "common/process/identity.h"
#include "common/run/manifest.h"
#include "common/run/manifest_json.h"
#include "common/run/outcome.h"
#include "common/threads/worker_thread.h"
#include "common/xspace/assemble/assembler.h"
#include "server/guard/resource_guard.h"

namespace jobscope {
namespace {

// How long Stop waits for a step window that may just have closed. The collector notices the close
// at its next drain, at most 100 ms later; without this wait Stop would call a complete window
// truncated.
constexpr absl::Duration kWindowNoticeTime = absl::Milliseconds(200);
// How long an exit waits for the removal of an incomplete file. The file system may hang.
constexpr absl::Duration kRemovalTime = absl::Milliseconds(500);

// Returns "<host>_<pid>" in the characters of file names that XProf can list.
std::string StemOf(const v1::Identity& identity) {
  std::string stem = absl::StrCat(identity.host(), "_", identity.pid());
  for (char& c : stem) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '_' && c != '-') {
      c = '_';
    }
  }
  return stem;
}

absl::Status ExitError() {
  return absl::UnavailableError("the process exited before the files of its capture were written");
}

// Logs why there is no trace: a process that exits, or whose step window has ended, may never ask.
// Does not throw: drops the line if memory runs out. Call it without a lock: a write of standard
// error may hang.
void LogLoss(const absl::Status& status) {
  try {
    Log(LogLevel::kWarning,
        absl::StrCat("the capture of this process was not written: ", status.message()));
  } catch (const std::exception&) {
    // No memory.
  }
}

}  // namespace

// Shared with the session thread, which may still write when the application exits.
struct ProgrammaticCapture::Run {
  explicit Run(RunDirectory run_directory) : directory(std::move(run_directory)) {}

  // Returns whether it has begun, and no exit has given it up.
  bool IsAwaited() {
    const MutexLock lock(&mutex);
    return started && !abandoned;
  }
  // Called by the session thread before it creates files. Returns false if the process exits.
  bool BeginFiles() {
    const MutexLock lock(&mutex);
    creates_files = !abandoned;
    return creates_files;
  }
  // Called after it has created the file of a part. Returns false if the process exits.
  bool FileBegun(std::string path) {
    const MutexLock lock(&mutex);
    creates_files = false;
    temporary_path = std::move(path);
    changed.NotifyAll();
    return !abandoned;
  }
  // Removes what an exit leaves incomplete. Blocks for the disk.
  void RemoveIncomplete() {
    std::string path;
    {
      const MutexLock lock(&mutex);
      changed.Wait(&mutex, [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
        return !creates_files || result.has_value();
      });
      path = temporary_path;
    }
    if (!path.empty()) unlink(path.c_str());
    directory.RemoveIfEmpty();
    const MutexLock lock(&mutex);
    removed = true;
    changed.NotifyAll();
  }
  // Blocks until RemoveIncomplete has ended, at most for `limit`. Returns whether the files are on
  // disk after all, because the last ones were being written.
  bool AwaitRemoval(absl::Duration limit) {
    const MutexLock lock(&mutex);
    const auto is_over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return removed; };
    changed.WaitFor(&mutex, limit, is_over);
    return result.has_value() && result->ok();
  }

  RunDirectory directory;
  std::string session_id;
  uint64_t part_limit_bytes = 0;
  bool has_steps = false;
  absl::Time begun;

  Mutex mutex;  // not held in calls of the file system, which may hang
  CondVar changed;
  bool started ABSL_GUARDED_BY(mutex) = false;
  std::optional<absl::StatusOr<ProgrammaticResult>> result ABSL_GUARDED_BY(mutex);
  std::string temporary_path ABSL_GUARDED_BY(mutex);  // of the file that is being written
  bool creates_files ABSL_GUARDED_BY(mutex) = false;  // or `result` ends it
  // The process exits: no new file is begun.
  bool abandoned ABSL_GUARDED_BY(mutex) = false;
  bool removed ABSL_GUARDED_BY(mutex) = false;
};

ProgrammaticCapture::ProgrammaticCapture(SessionManager* sessions, v1::Identity identity)
    : sessions_(sessions), identity_(std::move(identity)) {}

ProgrammaticCapture::~ProgrammaticCapture() = default;

absl::StatusOr<std::unique_ptr<FileSink>> ProgrammaticCapture::Begin(const std::string& stem,
                                                                     int part, Run* run) {
  if (!run->BeginFiles()) return ExitError();
  absl::StatusOr<std::unique_ptr<FileSink>> file = run->directory.CreateTrace(stem, part);
  // An incomplete FileSink removes its file.
  if (!run->FileBegun(file.ok() ? (*file)->temporary_path() : "")) return ExitError();
  return file;
}

absl::Status ProgrammaticCapture::Start(ProgrammaticRequest request) {
  const MutexLock one_at_a_time(&mutex_);
  latest_start_ = StartRun(std::move(request));
  return latest_start_;
}

absl::Status ProgrammaticCapture::StartRun(ProgrammaticRequest request) {
  if (run_ != nullptr) {
    const MutexLock lock(&run_->mutex);
    if (!run_->result.has_value()) {
      return absl::AlreadyExistsError(
          "a capture of this process is running; end it first (C++: StopCapture, Python: "
          "jobscope.stop)");
    }
  }
  RunDirectoryOptions directory_options;
  directory_options.logdir = request.logdir;
  absl::StatusOr<RunDirectory> directory = RunDirectory::Create(directory_options);
  if (!directory.ok()) return directory.status();

  auto run = std::make_shared<Run>(*std::move(directory));
  run->session_id = absl::StrCat("programmatic-", ++runs_);
  run->part_limit_bytes = request.part_limit_bytes;
  run->has_steps = request.capture.steps.has_value();
  run->begun = absl::FromUnixNanos(RealtimeNs());
  request.capture.session_id = run->session_id;
  SessionCallbacks callbacks;
  callbacks.started = [run](const SessionStarted& /*started*/) {
    const MutexLock lock(&run->mutex);
    run->started = true;
    run->changed.NotifyAll();
  };
  callbacks.done = [run, identity = identity_](SessionResult session) {
    absl::StatusOr<ProgrammaticResult> result = OutOfMemoryError();
    try {
      result = WriteFiles(session, identity, run.get());
      if (!result.ok()) run->directory.RemoveIfEmpty();
    } catch (const std::exception&) {
      // `result` already holds the error.
    }
    // Start returns the error of a session that has not begun; the exit has logged its own.
    if (!result.ok() && run->IsAwaited()) LogLoss(result.status());
    const MutexLock lock(&run->mutex);
    run->result = std::move(result);
    run->changed.NotifyAll();
  };
  sessions_->Submit(std::move(request.capture), WhenBusy::kRefuse, absl::InfiniteFuture(),
                    std::move(callbacks));
  const MutexLock lock(&run->mutex);
  run->changed.Wait(&run->mutex, [&run]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(run->mutex) {
    return run->started || run->result.has_value();
  });
  if (!run->started && !run->result->ok()) return run->result->status();
  run_ = run;
  latest_ = run;
  return absl::OkStatus();
}

absl::StatusOr<ProgrammaticResult> ProgrammaticCapture::Stop() {
  std::shared_ptr<Run> run;
  absl::Status started;
  {
    const MutexLock lock(&mutex_);
    run = std::exchange(run_, nullptr);
    started = std::exchange(latest_start_, absl::OkStatus());
  }
  if (run == nullptr) {
    return absl::FailedPreconditionError(
        started.ok() ? "no capture was started (StartCapture, CaptureSteps)"
                     : absl::StrCat("no capture was started: ", started.message()));
  }
  End(run.get(), EndedBy::kRequest);
  const MutexLock lock(&run->mutex);
  run->changed.Wait(&run->mutex, [&run]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(run->mutex) {
    return run->result.has_value();
  });
  return *run->result;
}

void ProgrammaticCapture::FinishBeforeExit(absl::Time deadline) {
  std::shared_ptr<Run> run;
  if (mutex_.TryLock()) {
    run = latest_.lock();
    mutex_.Unlock();
  }
  if (run == nullptr) return;
  End(run.get(), EndedBy::kShutdown);
  {
    const MutexLock lock(&run->mutex);
    const auto ended = [&run]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(run->mutex) {
      return run->result.has_value();
    };
    if (run->changed.WaitFor(&run->mutex, deadline - SteadyNow(), ended)) return;
    run->abandoned = true;
  }
  // If no thread can be created, the file stays.
  const absl::Status removes =
      StartWorkerThread("jobscope-remove", [run] { run->RemoveIncomplete(); });
  if (run->AwaitRemoval(removes.ok() ? kRemovalTime : absl::ZeroDuration())) return;
  LogLoss(ExitError());
}

void ProgrammaticCapture::End(Run* run, EndedBy cause) {
  if (run->has_steps) {
    const MutexLock lock(&run->mutex);
    const auto ended = [run]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(run->mutex) {
      return run->result.has_value();
    };
    if (run->changed.WaitFor(&run->mutex, kWindowNoticeTime, ended)) return;
  }
  sessions_->Stop(run->session_id, cause);
}

absl::StatusOr<ProgrammaticResult> ProgrammaticCapture::WriteFiles(const SessionResult& session,
                                                                   const v1::Identity& identity,
                                                                   Run* run) {
  if (!session.status.ok()) return session.status;
  const std::string stem = StemOf(identity);
  const std::vector<xspace::ItemView> items = session.store->Items();
  xspace::AssembleOptions options;
  options.hostname = stem;
  options.part_limit_bytes = run->part_limit_bytes;
  absl::StatusOr<xspace::Assembler> assembler = xspace::Assembler::Create(items, options);
  if (!assembler.ok()) return assembler.status();

  Manifest manifest;
  manifest.verb = "programmatic";
  manifest.run = run->directory.run();
  manifest.run_directory = run->directory.path();
  manifest.client_version = Version();
  manifest.started_unix_ns = absl::ToUnixNanos(run->begun);
  ManifestWorker worker;
  worker.name = stem;
  const bool account_unknown = AccountUnknown(session.summary);
  worker.outcome =
      session.summary.truncated() || account_unknown ? Outcome::kTruncated : Outcome::kOk;
  worker.phase = Phase::kDone;
  FillFromSummary(session.summary, &worker);
  for (size_t i = 0; i < assembler->parts().size(); ++i) {
    const int part = static_cast<int>(i) + 1;
    absl::StatusOr<std::unique_ptr<FileSink>> file = Begin(stem, part, run);
    if (!file.ok()) return file.status();
    absl::Status status = assembler->Write(i, file->get());
    if (status.ok()) status = (*file)->Publish();
    if (!status.ok()) {
      // If an exit that stopped waiting has removed the file, that is the cause to report.
      const MutexLock lock(&run->mutex);
      return run->abandoned ? ExitError() : status;
    }
    ManifestFile entry;
    entry.path = run->directory.RelativePath(stem, part);
    entry.bytes = (*file)->bytes();
    entry.events = assembler->parts()[i].events;
    worker.files.push_back(std::move(entry));
  }
  manifest.workers.push_back(std::move(worker));
  FillTotals(&manifest);
  // Small files: an exit that comes meanwhile waits for them, for at most kRemovalTime.
  if (!run->BeginFiles()) return ExitError();
  absl::Status status = run->directory.WriteMarker(run->begun);
  if (!status.ok()) {
    Log(LogLevel::kWarning,
        std::string(status.message()));  // only TensorBoard needs the marker
  }
  status = run->directory.WriteManifest(ManifestJson(manifest));
  if (!status.ok()) return status;
  ProgrammaticResult result;
  result.run_directory = run->directory.path();
  result.events = session.summary.events();
  if (!account_unknown) result.lost = session.summary.lost();
  return result;
}

}  // namespace jobscope
