// SPDX-License-Identifier: Apache-2.0
//
// Finds the user at the other end of a connection within this host.
#ifndef COMMON_NET_SOCKET_OWNER_H_
#define COMMON_NET_SOCKET_OWNER_H_

#include <sys/types.h>

#include "absl/status/statusor.h"

namespace jobscope {

// How to query the kernel about TCP sockets.
enum class SocketTable {
  kNetlinkOrProc,  // sock_diag, which finds one socket in microseconds; else /proc
  kProc,           // /proc/net/tcp and tcp6 only, for tests
};

// Returns the user at the other end of the connected stream socket `fd`: for a Unix socket the
// user who called connect() or listen() (SO_PEERCRED), for TCP the owner of the socket at the other
// end, as this process' user namespace names it. Reads at most 16 MiB of /proc; takes no lock and
// waits for nobody. Thread-safe. Errors:
//   NOT_FOUND          the other end is closed, or no socket of this network namespace
//   UNAVAILABLE        the kernel does not say, or the user has no number in this user namespace
//   INVALID_ARGUMENT   `fd` is no connected TCP or Unix socket
//
// A TCP socket that its process has closed belongs to nobody: the kernel reports user 0 for it.
// Such sockets are NOT_FOUND, or every user could pass for root by closing quickly.
absl::StatusOr<uid_t> PeerUser(int fd, SocketTable table = SocketTable::kNetlinkOrProc);

}  // namespace jobscope

#endif  // COMMON_NET_SOCKET_OWNER_H_
