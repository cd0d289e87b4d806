// SPDX-License-Identifier: Apache-2.0
//
// Defines one worker's address: what the user writes, what gRPC connects to, how files are named.
#ifndef COMMON_NET_ENDPOINT_H_
#define COMMON_NET_ENDPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace jobscope {

struct Endpoint {
  // Shown to people and unique within a run: "host:port", "[v6]:port" or "unix:/path".
  std::string address;
  // The gRPC target. For a literal address it names the family, so that gRPC asks no resolver.
  std::string target;
  // Without brackets; empty for a unix socket.
  std::string host;
  // 1..65535; 0 for a unix socket.
  uint16_t port = 0;
  // Equal for different spellings of one address: "HOST:7" and "host:7", "[::1]:7" and
  // "[0:0::1]:7".
  std::string key;
};

// Parses one address: host:port, [v6]:port or unix:/path, optionally after "grpc://". Accepts any
// bytes. Calls no resolver and touches no file. The error names the offending part (unprintable
// bytes replaced) and the remedy.
absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text);

// Returns the INVALID_ARGUMENT for an address that a user wrote, with the reason.
absl::Status BadAddress(absl::string_view text, absl::string_view why);

// Returns the address as part of a file name: "<host>_<port>" from the alphabet [A-Za-z0-9._-], at
// most 128 characters, not starting with '.' or '-'.
std::string FileStem(const Endpoint& endpoint);

// Returns the stems of all endpoints, in order. Unique also on case-insensitive file systems: when
// two addresses give the same stem, later ones get "-2", "-3", ...
std::vector<std::string> FileStems(const std::vector<Endpoint>& endpoints);

}  // namespace jobscope

#endif  // COMMON_NET_ENDPOINT_H_
