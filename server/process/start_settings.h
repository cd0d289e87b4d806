// SPDX-License-Identifier: Apache-2.0
//
// Determines the settings of a start of the server.
#ifndef SERVER_PROCESS_START_SETTINGS_H_
#define SERVER_PROCESS_START_SETTINGS_H_

#include <string>

#include "absl/status/statusor.h"
#include "server/process/server_options.h"
#include "server/rpc/ceilings.h"
#include "server/security/allowed_users.h"
#include "server/security/credentials.h"

namespace jobscope {

struct StartSettings {
  ServerOptions options;  // after applying the environment
  std::string port_dir;   // as given
  std::string absolute_port_dir;
  CredentialFiles credentials;
  AllowedUsers allowed_users;
  Ceilings ceilings;
  bool by_environment = false;  // nothing was chosen in code

  // Returns whether both came to the same options and directory.
  bool SameAs(const StartSettings& other) const {
    return options == other.options && port_dir == other.port_dir;
  }
};

// Applies the environment to the options given in code. `absolute_port_dir` and the files of
// `credentials` are absolute: the program may change its working directory later. Returns
// INVALID_ARGUMENT, which names the setting, or PERMISSION_DENIED if the environment forbids a
// server.
absl::StatusOr<StartSettings> ResolveSettings(const ServerOptions& in_code);

}  // namespace jobscope

#endif  // SERVER_PROCESS_START_SETTINGS_H_
