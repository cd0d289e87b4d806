// SPDX-License-Identifier: Apache-2.0
//
// Decides whether a worker on this host may receive a secret in clear text.
#ifndef CLIENT_RPC_WORKER_OWNER_H_
#define CLIENT_RPC_WORKER_OWNER_H_

#include "absl/status/status.h"
#include "common/net/endpoint.h"

namespace jobscope {

// Checks the connections of this process to `endpoint`, a loopback address or a Unix socket.
// Returns OK if there is one, and the process at the other end of each belongs to this user or
// root. For a Unix socket, checks the connections to all Unix sockets with a path: the kernel does
// not report the path that was dialed, only the one that the listener was bound to. Call it on an
// established connection: a program that takes over the port or the path later cannot deceive it.
// Costs a system call per descriptor of this process. Returns PERMISSION_DENIED, which names the
// other user, or UNAVAILABLE if there is no connection or the kernel does not report the user.
// Thread-safe.
absl::Status CheckWorkerOwner(const Endpoint& endpoint);

}  // namespace jobscope

#endif  // CLIENT_RPC_WORKER_OWNER_H_
