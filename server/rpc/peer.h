// SPDX-License-Identifier: Apache-2.0
//
// Describes callers: addresses, for people, and deadlines.
#ifndef SERVER_RPC_PEER_H_
#define SERVER_RPC_PEER_H_

#include <grpcpp/server_context.h>

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace jobscope {

// Converts gRPC's names of peers, "ipv4:127.0.0.1:40123" and "ipv6:%5Bfe80::1%252%5D:40123", to the
// usual form of addresses: "127.0.0.1:40123", "[fe80::1%2]:40123".
std::string ReadablePeer(absl::string_view grpc_peer);

// Returns the caller's address, "10.0.0.3:40123", with the name in its certificate if it has shown
// one: "10.0.0.3:40123 (alice)".
std::string PeerOf(const grpc::ServerContextBase& context);

// Returns the caller's deadline as an instant of SteadyNow, which does not move when the date is
// set; the infinite future if it has set none. gRPC has it as a date: call this once, when the call
// begins.
absl::Time DeadlineOf(const grpc::ServerContextBase& context);

}  // namespace jobscope

#endif  // SERVER_RPC_PEER_H_
