// SPDX-License-Identifier: Apache-2.0
//
// Manages the one profiler server of this process: implements jobscope_server_start and
// jobscope_server_stop.
#ifndef SERVER_PROCESS_PROCESS_SERVER_H_
#define SERVER_PROCESS_PROCESS_SERVER_H_

#include <cstdint>
#include <string>

namespace jobscope {

// Options as given in code. Empty and 0 stand for the environment's value, else for the default.
struct ProcessServerOptions {
  std::string address;
  bool insecure = false;
  uint64_t store_bytes = 0;
  uint32_t ring_records = 0;
  uint64_t rings_cap_bytes = 0;
  bool no_always_on = false;
  // Paths of PEM files, and of a token file.
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  std::string token_file;
  // Names in callers' certificates, and ids of users, separated by commas.
  std::string tls_allowed_names;
  std::string allow_users;
  // Ceilings of what clients may ask for.
  uint64_t max_duration_ms = 0;
  uint64_t max_trace_bytes = 0;
  uint32_t max_captures_per_minute = 0;
  std::string max_levels;    // "3/1/2"
  bool allow_close = false;  // callers may close the server
};

struct StartOutcome {
  int code = 0;         // JOBSCOPE_OK or JOBSCOPE_E_*
  std::string error;    // what failed and what to do
  std::string address;  // as bound; with JOBSCOPE_E_BUSY that of the running server
};

// Starts the server. Thread-safe; blocks while another start is in progress. Returns
// JOBSCOPE_E_FORKED in a forked child. A running server that the environment requested (`jobscope
// run`) is returned to every later start, whatever its options; one that was started in code, to
// starts with the same options.
StartOutcome StartProcessServer(const ProcessServerOptions& options);

// Stops the server, if it runs: ends and delivers a running capture, blocking for at most 2 s. Does
// nothing in a forked child.
void StopProcessServer();

bool ProcessServerRuns();

}  // namespace jobscope

#endif  // SERVER_PROCESS_PROCESS_SERVER_H_
