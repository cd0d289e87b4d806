// SPDX-License-Identifier: Apache-2.0
//
// Ends the program once everything is on disk.
#ifndef CLIENT_CLI_BASE_EXIT_H_
#define CLIENT_CLI_BASE_EXIT_H_

#include <string>

#include "absl/status/status.h"
#include "client/rpc/call_threads.h"

namespace jobscope {

// Tells on stderr why nothing is done. Returns kExitUsage.
int UsageError(const absl::Status& status);

// Writes the complete result to stdout. Returns the exit code to end with: `exit_code`, but
// kExitOutput instead of kExitAll if the result could not be written (a full disk; a reader that
// closes the pipe is no failure).
int PrintResult(const std::string& text, int exit_code);

// Waits until all calls have ended, so that no worker keeps data that will not be fetched (for at
// most the second that a stream has to end), flushes stdio and ends the process: runs no destructor
// and joins no thread. gRPC's own shutdown would end a dozen threads one after the other, and close
// a thousand channels.
//
// Files must be closed, and no thread may have work left. Must not be called on one of `threads`.
[[noreturn]] void ExitAtOnce(CallThreads* threads, int exit_code);

}  // namespace jobscope

#endif  // CLIENT_CLI_BASE_EXIT_H_
