// SPDX-License-Identifier: Apache-2.0
//
// Where a worker listens: grammar, resolution, and whether strangers could reach it.
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
  uint16_t port = 0;      // 0: the kernel picks one
  std::string unix_path;  // absolute or relative; at most 107 bytes
  bool is_unix() const { return !unix_path.empty(); }
};

// host:port, [v6]:port, unix:/path. A suffix "+rank" adds `local_rank` to the port, unless that is
// 0; a process without one is alone on its host, and adds nothing. INVALID_ARGUMENT names the
// culprit and says what to write.
absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text,
                                                 std::optional<int> local_rank);

// One socket address to bind: numeric, as gRPC and people write it.
struct BindTarget {
  std::string text;       // "127.0.0.1:6009", "[::1]:6009", "unix:/path"
  bool loopback = false;  // nobody from outside of this host (or its network namespace) reaches it;
                          // true for unix
};

// Every address behind the host, IPv4 first, without duplicates. May ask the name service.
// UNAVAILABLE if the name is not known.
absl::StatusOr<std::vector<BindTarget>> ResolveListenAddress(const ListenAddress& address);

}  // namespace jobscope

#endif  // SERVER_LISTEN_LISTEN_ADDRESS_H_
