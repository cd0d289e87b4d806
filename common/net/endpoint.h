// SPDX-License-Identifier: Apache-2.0
//
// One worker's address: what the user writes, what gRPC dials, what a file is called after it.
#ifndef COMMON_NET_ENDPOINT_H_
#define COMMON_NET_ENDPOINT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace jobscope {

struct Endpoint {
  // As shown to people, and unique within a run: "host:port", "[v6]:port" or "unix:/path".
  std::string address;
  // As gRPC dials it. A literal address names its family here, so that nothing asks a resolver
  // about it.
  std::string target;
  // Without brackets; empty for a unix socket.
  std::string host;
  // 1..65535; 0 for a unix socket.
  uint16_t port = 0;
  // Equal for two spellings of one address: "HOST:7" and "host:7", "[::1]:7" and "[0:0::1]:7".
  std::string key;
};

// Parses one address: host:port, [v6]:port, unix:/path, each with or without "grpc://" before it.
// Pure: asks no resolver, touches no file. Any bytes may come in; the error names the culprit
// (unprintable bytes replaced) and the remedy.
absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text);

// The address as part of a file name: "<host>_<port>" from the alphabet [A-Za-z0-9._-], at most 128
// characters, never beginning with '.' or '-'.
std::string FileStem(const Endpoint& endpoint);

// The stems of all endpoints, in their order. Unique also on file systems that ignore case: where
// two addresses give the same stem, the later ones get "-2", "-3", ...
std::vector<std::string> FileStems(const std::vector<Endpoint>& endpoints);

}  // namespace jobscope

#endif  // COMMON_NET_ENDPOINT_H_
