// SPDX-License-Identifier: Apache-2.0
//
// Whom a verb talks to, and how it connects: the part of the command line that all verbs share.
#ifndef CLIENT_CLI_TARGETS_H_
#define CLIENT_CLI_TARGETS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/flags.h"
#include "client/rpc/dial.h"
#include "common/net/endpoint.h"

namespace jobscope {

struct Targets {
  std::vector<Endpoint> endpoints;
  DialOptions dial;
};

// Reads lists and credentials, asks the resolver where an address wants it; dials nobody. The error
// is a usage error.
absl::StatusOr<Targets> PrepareTargets(const Flags& flags);

}  // namespace jobscope

#endif  // CLIENT_CLI_TARGETS_H_
