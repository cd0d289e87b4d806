// SPDX-License-Identifier: Apache-2.0
//
// Whether a worker on this host may be shown a secret in clear text.
#ifndef CLIENT_RPC_WORKER_OWNER_H_
#define CLIENT_RPC_WORKER_OWNER_H_

#include "absl/status/status.h"
#include "common/net/endpoint.h"

namespace jobscope {

// Looks at the connections that this process has to `endpoint`, a loopback address or a Unix
// socket: OK if there is one, and the process at the other end of each is of this user or root.
// Asked when the connection stands, it cannot be deceived by a program that takes the port over
// between the look and the connection. Costs a system call per descriptor of this process.
// PERMISSION_DENIED names the other user; UNAVAILABLE: there is no connection, or the kernel does
// not tell. Thread-safe.
absl::Status CheckWorkerOwner(const Endpoint& endpoint);

}  // namespace jobscope

#endif  // CLIENT_RPC_WORKER_OWNER_H_
