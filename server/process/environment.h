// SPDX-License-Identifier: Apache-2.0
//
// Reads the JOBSCOPE_* variables of a worker, in one place. Options given in code take precedence.
#ifndef SERVER_PROCESS_ENVIRONMENT_H_
#define SERVER_PROCESS_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace jobscope {

struct Environment {
  std::string listen;        // JOBSCOPE_LISTEN; empty: not set
  bool disable = false;      // JOBSCOPE_DISABLE: no server, no capture, whatever the code says
  std::string port_dir;      // JOBSCOPE_PORT_DIR; empty: not set
  bool insecure = false;     // JOBSCOPE_INSECURE: serve any address without credentials
  bool allow_close = false;  // JOBSCOPE_ALLOW_CLOSE: callers may close the server
  std::optional<uint64_t> store_bytes;  // JOBSCOPE_STORE_MB, in MiB there
  // Paths, not checked here; empty: not set.
  std::string tls_cert;    // JOBSCOPE_TLS_CERT
  std::string tls_key;     // JOBSCOPE_TLS_KEY
  std::string tls_ca;      // JOBSCOPE_TLS_CA
  std::string token_file;  // JOBSCOPE_TOKEN_FILE
  // As texts: what they hold is checked with the options given in code.
  std::string allow_users;                          // JOBSCOPE_ALLOW_USERS
  std::string tls_allowed_names;                    // JOBSCOPE_TLS_ALLOWED_NAMES
  std::string max_levels;                           // JOBSCOPE_MAX_LEVELS
  std::optional<uint64_t> max_duration_ms;          // JOBSCOPE_MAX_DURATION_MS
  std::optional<uint64_t> max_trace_bytes;          // JOBSCOPE_MAX_TRACE_MB, in MiB there
  std::optional<uint64_t> max_captures_per_minute;  // JOBSCOPE_MAX_CAPTURES_PER_MINUTE
};

// Returns INVALID_ARGUMENT, which names the variable, its value and what it may be. An empty
// variable counts as not set. Only checks JOBSCOPE_LOG_LEVEL; common/log/log applies it.
absl::StatusOr<Environment> ReadEnvironment(
    const std::function<const char*(const char*)>& get_variable = nullptr);

}  // namespace jobscope

#endif  // SERVER_PROCESS_ENVIRONMENT_H_
