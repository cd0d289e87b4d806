// SPDX-License-Identifier: Apache-2.0
//
// A process captures itself: a session whose trace goes into a run directory of this machine.
#ifndef SERVER_PROGRAMMATIC_CAPTURE_H_
#define SERVER_PROGRAMMATIC_CAPTURE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/run_directory.h"
#include "server/session.h"
#include "server/session_options.h"

namespace jobscope {

struct ProgrammaticRequest {
  std::string logdir;
  SessionOptions capture;  // session_id and peer are set here
  uint64_t part_limit_bytes = 256ull << 20;
};

struct ProgrammaticResult {
  std::string run_directory;
  uint64_t events = 0;
  std::optional<uint64_t> lost;  // nullopt: not known
};

// One capture at a time; thread-safe. Files are written on the session's thread, never on the
// application's: a step window is on disk without a further call.
class ProgrammaticCapture {
 public:
  // `sessions` must outlive this object.
  ProgrammaticCapture(SessionManager* sessions, v1::Identity identity);
  ~ProgrammaticCapture();

  // Makes and checks the run directory, then returns once recording has begun, or the session waits
  // for its first step. INVALID_ARGUMENT, RESOURCE_EXHAUSTED: the logdir will not do.
  // ALREADY_EXISTS: another capture runs.
  absl::Status Start(ProgrammaticRequest request);

  // Ends the capture, unless it has ended by itself; blocks until its files are on disk.
  // FAILED_PRECONDITION: none was started.
  absl::StatusOr<ProgrammaticResult> Stop();

 private:
  struct Run;
  static absl::StatusOr<ProgrammaticResult> WriteFiles(const Run& run, const SessionResult& session,
                                                       const v1::Identity& identity);

  SessionManager* const sessions_;
  const v1::Identity identity_;
  std::mutex mutex_;
  std::shared_ptr<Run> run_;  // the last one, until Stop has told of it
  uint64_t runs_ = 0;
};

}  // namespace jobscope

#endif  // SERVER_PROGRAMMATIC_CAPTURE_H_
