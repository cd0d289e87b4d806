// SPDX-License-Identifier: Apache-2.0
//
// Determines the workers that a verb contacts, and how it connects: the part of the command line
// that all verbs share.
#ifndef CLIENT_CLI_BASE_TARGETS_H_
#define CLIENT_CLI_BASE_TARGETS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/base/worker_verb.h"
#include "client/rpc/dial.h"
#include "common/net/endpoint.h"

namespace jobscope {

struct Targets {
  std::vector<Endpoint> endpoints;
  DialOptions dial;
};

// Reads address lists and credentials, and queries the resolver if an address requires it; dials
// nothing. An error is a usage error.
absl::StatusOr<Targets> PrepareTargets(const Flags& flags);

}  // namespace jobscope

#endif  // CLIENT_CLI_BASE_TARGETS_H_
