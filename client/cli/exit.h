// SPDX-License-Identifier: Apache-2.0
//
// How the program ends once everything is on disk.
#ifndef CLIENT_CLI_EXIT_H_
#define CLIENT_CLI_EXIT_H_

#include <string>

#include "client/rpc/call_threads.h"

namespace jobscope {

// Prints what the program was asked for to standard output, in whole. Returns the exit code to end
// with: `exit_code`, but kExitOutput instead of kExitAll where it could not be written (a disk that
// is full; a reader that wants no more is no failure).
int PrintResult(const std::string& text, int exit_code);

// Waits until all calls have ended, so that no worker keeps what nobody will fetch (at most the
// second that a stream is given to end), flushes stdio, and ends the process: no destructor runs,
// no thread is joined. gRPC's own way out is a dozen threads that end one after the other, and a
// thousand channels that are taken down.
//
// Files must be closed, and nothing may be owed to a thread. Not on one of `threads`.
[[noreturn]] void ExitAtOnce(CallThreads* threads, int exit_code);

}  // namespace jobscope

#endif  // CLIENT_CLI_EXIT_H_
