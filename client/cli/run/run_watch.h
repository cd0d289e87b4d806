// SPDX-License-Identifier: Apache-2.0
//
// Starts the process that runs beside a program of `jobscope run`.
#ifndef CLIENT_CLI_RUN_RUN_WATCH_H_
#define CLIENT_CLI_RUN_RUN_WATCH_H_

#include <string>

#include "absl/status/status.h"

namespace jobscope {

struct RunWatchOptions {
  std::string port_directory;  // absolute
  bool remove = false;         // remove the directory, with what workers left there, at the end
  bool quiet = false;
};

// Starts a process that writes a line to standard error for each worker that appears in the port
// directory, until this process, whatever it executes, has ended. Files that are there before are
// passed over: they are of other programs, or of workers that were killed. The process is no child
// of this one, which may wait for all of its children; it ignores signals that a terminal or
// launcher sends to the group; it keeps no descriptor but standard error. Call it while only one
// thread exists. Returns UNAVAILABLE if it cannot be started, or if this process adopts orphaned
// processes (process 1, a subreaper) and so would be its parent.
absl::Status StartRunWatch(const RunWatchOptions& options);

}  // namespace jobscope

#endif  // CLIENT_CLI_RUN_RUN_WATCH_H_
