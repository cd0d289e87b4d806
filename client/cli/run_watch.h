// SPDX-License-Identifier: Apache-2.0
//
// The process beside a program that `jobscope run` started.
#ifndef CLIENT_CLI_RUN_WATCH_H_
#define CLIENT_CLI_RUN_WATCH_H_

#include <string>

#include "absl/status/status.h"

namespace jobscope {

struct RunWatchOptions {
  std::string port_directory;  // absolute
  bool remove = false;         // the directory, with what workers left there, at the end
  bool quiet = false;
};

// Starts a process that writes a line to standard error for each worker that appears in the port
// directory, until this process, whatever it executes, has ended. It is no child of this process,
// which may be going to wait for all of its children; it takes no signal that a terminal or a
// launcher sends to the group; of the descriptors it keeps standard error only. Call it while there
// is one thread. UNAVAILABLE: there is no such process.
absl::Status StartRunWatch(const RunWatchOptions& options);

}  // namespace jobscope

#endif  // CLIENT_CLI_RUN_WATCH_H_
