// SPDX-License-Identifier: Apache-2.0
//
// Reads the JOBSCOPE_* variables of a worker, in one place. Options given in code take precedence.
#ifndef SERVER_PROCESS_ENVIRONMENT_H_
#define SERVER_PROCESS_ENVIRONMENT_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/process/server_options.h"

namespace jobscope {

struct Environment {
  ServerOptions options;
  bool disable = false;  // JOBSCOPE_DISABLE: no server, no capture, whatever the code says
  std::string port_dir;  // JOBSCOPE_PORT_DIR; empty: not set
};

// Returns INVALID_ARGUMENT, which names the variable, its value and what it may be. An empty
// variable counts as not set. Does not check texts: those of an option are checked with the ones
// given in code. Only checks JOBSCOPE_LOG_LEVEL; common/log/log applies it.
absl::StatusOr<Environment> ReadEnvironment(
    const std::function<const char*(const char*)>& get_variable = nullptr);

}  // namespace jobscope

#endif  // SERVER_PROCESS_ENVIRONMENT_H_
