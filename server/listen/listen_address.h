// SPDX-License-Identifier: Apache-2.0
//
// Parses and resolves the address on which a worker listens, and says whether other hosts can
// reach it.
#ifndef SERVER_LISTEN_LISTEN_ADDRESS_H_
#define SERVER_LISTEN_LISTEN_ADDRESS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace jobscope {

struct ListenAddress {
  std::string host;       // without brackets; empty for a unix socket
  uint16_t port = 0;      // 0: the kernel chooses one
  std::string unix_path;  // absolute, at most 107 visible ASCII characters
  bool is_unix() const { return !unix_path.empty(); }
};

// Parses host:port, [v6]:port or unix:/path, a path that clients can dial (ParseEndpoint). A suffix
// "+rank" adds `local_rank` to the port, unless the port is 0; a process without local rank is
// alone on its host, and adds nothing. Returns INVALID_ARGUMENT, which names the invalid part and
// says what to write.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text,
                                                 std::optional<int> local_rank);

// One socket address to bind: numeric, in the notation of gRPC.
struct BindTarget {
  std::string text;  // "127.0.0.1:6009", "[::1]:6009", "unix:/path"
  // Other hosts (or network namespaces) cannot reach it; true for unix.
  bool loopback = false;
};

// Returns every address of the host, IPv4 first, without duplicates. May query the name service.
// Returns UNAVAILABLE if the name is unknown.
absl::StatusOr<std::vector<BindTarget>> ResolveListenAddress(const ListenAddress& address);

}  // namespace jobscope

#endif  // SERVER_LISTEN_LISTEN_ADDRESS_H_
