// SPDX-License-Identifier: Apache-2.0
//
// Captures this process from within: a session whose trace goes into a run directory of this
// machine.
#ifndef SERVER_PROGRAMMATIC_PROGRAMMATIC_CAPTURE_H_
#define SERVER_PROGRAMMATIC_PROGRAMMATIC_CAPTURE_H_
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/files/file_sink.h"
#include "common/run/run_directory.h"
#include "common/sync/mutex.h"
#include "server/session/session_manager.h"
#include "server/session/session_options.h"

namespace jobscope {

struct ProgrammaticRequest {
  std::string logdir;
  SessionOptions capture;  // session_id and peer are set by Start
  uint64_t part_limit_bytes = 256ull << 20;
};

struct ProgrammaticResult {
  std::string run_directory;
  uint64_t events = 0;
  std::optional<uint64_t> lost;  // nullopt: not known
};

// Runs one capture at a time. Thread-safe. Files are written on the session thread, never on the
// application's: a step window reaches the disk without a further call. Files that cannot be
// written are an error of Stop and a line of the log.
class ProgrammaticCapture {
 public:
  // `sessions` must outlive this object.
  ProgrammaticCapture(SessionManager* sessions, v1::Identity identity);
  ~ProgrammaticCapture();

  // Creates and checks the run directory, then blocks until recording has begun, or the session
  // waits for its first step. Returns INVALID_ARGUMENT or RESOURCE_EXHAUSTED if the logdir is
  // unusable, ALREADY_EXISTS if another capture runs.
  absl::Status Start(ProgrammaticRequest request);

  // Ends the capture, unless it has ended by itself. Blocks until its files are on disk. Returns
  // FAILED_PRECONDITION if none was started, with the error of the latest Start.
  absl::StatusOr<ProgrammaticResult> Stop();

  // The process exits: ends the capture and blocks until its files are on disk, at most until
  // `deadline` (of SteadyNow). Then removes an incomplete trace, for which it blocks for at most
  // 0.5 s. Does not wait for a Start in progress.
  void FinishBeforeExit(absl::Time deadline);

 private:
  struct Run;
  absl::Status StartRun(ProgrammaticRequest request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Creates the file of a part, unless the process exits.
  static absl::StatusOr<std::unique_ptr<FileSink>> Begin(const std::string& stem, int part,
                                                         Run* run);
  static absl::StatusOr<ProgrammaticResult> WriteFiles(const SessionResult& session,
                                                       const v1::Identity& identity, Run* run);
  // Ends the session of `run`, unless it has ended.
  void End(Run* run, EndedBy cause);

  SessionManager* const sessions_;
  const v1::Identity identity_;
  Mutex mutex_;
  std::shared_ptr<Run> run_ ABSL_GUARDED_BY(mutex_);
  absl::Status latest_start_ ABSL_GUARDED_BY(mutex_);  // until Stop has reported it
  // The last one, while it is being written or until Stop has reported it.
  std::weak_ptr<Run> latest_ ABSL_GUARDED_BY(mutex_);
  uint64_t runs_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace jobscope

#endif  // SERVER_PROGRAMMATIC_PROGRAMMATIC_CAPTURE_H_
