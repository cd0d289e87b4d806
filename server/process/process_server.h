// SPDX-License-Identifier: Apache-2.0
//
// The one profiler server of this process: what jobscope_server_start and jobscope_server_stop do.
#ifndef SERVER_PROCESS_PROCESS_SERVER_H_
#define SERVER_PROCESS_PROCESS_SERVER_H_

#include <cstdint>
#include <string>

namespace jobscope {

// As given in code. What is empty or 0 comes from the environment, else it is the default.
struct ProcessServerOptions {
  std::string address;
  bool insecure = false;
  uint64_t store_bytes = 0;
  uint32_t ring_records = 0;
  uint64_t rings_cap_bytes = 0;
  bool no_always_on = false;
  // Paths of PEM files, and of a token.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  std::string token_file;
};

struct StartOutcome {
  int code = 0;         // JOBSCOPE_OK or JOBSCOPE_E_*
  std::string error;    // what is wrong and what to do
  std::string address;  // really bound; with JOBSCOPE_E_BUSY that of the server that runs
};

// Thread-safe; a Start waits for one that is under way. In a forked child: JOBSCOPE_E_FORKED. A
// server that the environment asked for (`jobscope run`) is given to every later Start, whatever
// its options; one that was started in code, to those with the same options.
StartOutcome StartProcessServer(const ProcessServerOptions& options);

// Ends it, if there is one: a running capture is ended and delivered, in at most 2 s. Does nothing
// in a forked child.
void StopProcessServer();

bool ProcessServerRuns();

}  // namespace jobscope

#endif  // SERVER_PROCESS_PROCESS_SERVER_H_
