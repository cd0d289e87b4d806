// SPDX-License-Identifier: Apache-2.0
//
// Declares the options of the profiler server, each once: its name in code, its variable in the
// environment, its range and its default.
#ifndef SERVER_PROCESS_SERVER_OPTIONS_H_
#define SERVER_PROCESS_SERVER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <variant>

#include "absl/status/statusor.h"
#include "server/limits.h"

namespace jobscope {

// Options as given in code (jobscope_c.h describes them), or by the environment. Empty, 0 and
// false: not given.
struct ServerOptions {
  std::string address;
  bool insecure = false;
  uint64_t store_bytes = 0;
  uint64_t ring_records = 0;
  uint64_t rings_cap_bytes = 0;
  bool no_always_on = false;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_ca;
  std::string token_file;
  std::string tls_allowed_names;
  std::string allow_users;
  uint64_t max_duration_ms = 0;
  uint64_t max_trace_bytes = 0;
  uint64_t max_captures_per_minute = 0;
  std::string max_levels;
  bool allow_close = false;
};

struct ServerOption {
  const char* name;
  const char* variable;  // null: the environment cannot give it
  std::variant<std::string ServerOptions::*, bool ServerOptions::*, uint64_t ServerOptions::*>
      member;
  // For numbers only.
  uint64_t least = 0;
  uint64_t most = UINT64_MAX;
  uint64_t otherwise = 0;
  uint64_t unit = 1;  // what 1 in the variable stands for
};

// The recorder knows the ranges and defaults of those for which there are none here.
inline constexpr ServerOption kServerOptions[] = {
    {"address", "JOBSCOPE_LISTEN", &ServerOptions::address},
    {"insecure", "JOBSCOPE_INSECURE", &ServerOptions::insecure},
    {"store_bytes", "JOBSCOPE_STORE_MB", &ServerOptions::store_bytes, limits::kMinStoreBytes,
     limits::kMaxStoreBytes, limits::kDefaultStoreBytes, 1 << 20},
    {"ring_records", nullptr, &ServerOptions::ring_records},
    {"rings_cap_bytes", nullptr, &ServerOptions::rings_cap_bytes},
    {"no_always_on", nullptr, &ServerOptions::no_always_on},
    {"tls_cert", "JOBSCOPE_TLS_CERT", &ServerOptions::tls_cert},
    {"tls_key", "JOBSCOPE_TLS_KEY", &ServerOptions::tls_key},
    {"tls_ca", "JOBSCOPE_TLS_CA", &ServerOptions::tls_ca},
    {"token_file", "JOBSCOPE_TOKEN_FILE", &ServerOptions::token_file},
    {"tls_allowed_names", "JOBSCOPE_TLS_ALLOWED_NAMES", &ServerOptions::tls_allowed_names},
    {"allow_users", "JOBSCOPE_ALLOW_USERS", &ServerOptions::allow_users},
    {"max_duration_ms", "JOBSCOPE_MAX_DURATION_MS", &ServerOptions::max_duration_ms, 1,
     limits::kMaxDurationMs, limits::kMaxDurationMs},
    {"max_trace_bytes", "JOBSCOPE_MAX_TRACE_MB", &ServerOptions::max_trace_bytes,
     limits::kMinTraceBytes, limits::kMaxTraceBytes, 0, 1 << 20},
    {"max_captures_per_minute", "JOBSCOPE_MAX_CAPTURES_PER_MINUTE",
     &ServerOptions::max_captures_per_minute, 1, limits::kMaxCapturesPerMinute},
    {"max_levels", "JOBSCOPE_MAX_LEVELS", &ServerOptions::max_levels},
    {"allow_close", "JOBSCOPE_ALLOW_CLOSE", &ServerOptions::allow_close},
};

bool operator==(const ServerOptions& a, const ServerOptions& b);

// Returns the options in code, for those that are not given there the environment's, else the
// defaults. INVALID_ARGUMENT: a number in code is out of range. Checks neither the environment's
// nor texts.
absl::StatusOr<ServerOptions> Merge(const ServerOptions& in_code,
                                    const ServerOptions& in_environment);

// Returns what gave a text that is not empty: "options.tls_cert" or "JOBSCOPE_TLS_CERT".
std::string GiverOf(std::string ServerOptions::*text, const ServerOptions& in_code);

}  // namespace jobscope

#endif  // SERVER_PROCESS_SERVER_OPTIONS_H_
