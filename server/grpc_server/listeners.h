// SPDX-License-Identifier: Apache-2.0
//
// Opens the listening sockets of the server.
#ifndef SERVER_GRPC_SERVER_LISTENERS_H_
#define SERVER_GRPC_SERVER_LISTENERS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "server/guard/fork_guard.h"
#include "server/listen/listen_address.h"
#include "server/listen/listen_socket.h"

namespace jobscope {

// Listens on the host's addresses. A name may stand for an address that this host does not have
// (::1 where IPv6 is off): it is skipped if another one can be bound. `first_only`: listens on the
// first address only; with port 0 the number may be taken on another one. Adds a guard for each
// listener to `guards`, which is empty: a child forked from then on closes it. Blocks for up to
// 0.5 s to identify the holder of a taken address. Returns ALREADY_EXISTS (taken, and by whom) or
// UNAVAILABLE (no address can be bound).
absl::StatusOr<std::vector<ListenSocket>> OpenListeners(const std::vector<BindTarget>& targets,
                                                        bool first_only,
                                                        const ListenSocketOptions& options,
                                                        std::vector<ListenerGuard>* guards);

}  // namespace jobscope

#endif  // SERVER_GRPC_SERVER_LISTENERS_H_
