// SPDX-License-Identifier: Apache-2.0
//
// Manages the one profiler server of this process: implements jobscope_server_start and
// jobscope_server_stop.
#ifndef SERVER_PROCESS_PROCESS_SERVER_H_
#define SERVER_PROCESS_PROCESS_SERVER_H_

#include <string>

#include "server/process/server_options.h"

namespace jobscope {

struct StartOutcome {
  int code = 0;         // JOBSCOPE_OK or JOBSCOPE_E_*
  std::string error;    // what failed and what to do
  std::string address;  // as bound; with JOBSCOPE_E_BUSY that of the running server
};

// Starts the server. Thread-safe. Waits for another thread that starts or stops one; returns
// JOBSCOPE_E_BUSY after 10 s. Then blocks for at most 10 s (GrpcServer::Start), for at most 7.8 s
// more if the file system of JOBSCOPE_PORT_DIR hangs, and, in the first start, while other threads
// load libraries. Returns JOBSCOPE_E_FORKED in a forked child. A running server that the
// environment requested (`jobscope run`) is returned to every later start, whatever its options;
// one that was started in code, to starts with the same options.
StartOutcome StartProcessServer(const ServerOptions& options);

// Stops the server, if it runs: ends and delivers a running capture, blocking for at most 2.8 s.
// First waits for another thread that starts or stops one; returns JOBSCOPE_E_BUSY after 10 s. Does
// nothing in a forked child.
int StopProcessServer();

// Returns whether a server runs that nobody has begun to stop. Never blocks.
bool ProcessServerRuns();

}  // namespace jobscope

#endif  // SERVER_PROCESS_PROCESS_SERVER_H_
