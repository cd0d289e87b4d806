// SPDX-License-Identifier: Apache-2.0
//
// Creates gRPC channels to workers, for both protocols.
#ifndef CLIENT_RPC_DIAL_H_
#define CLIENT_RPC_DIAL_H_

#include <grpcpp/channel.h>

#include <climits>
#include <memory>

#include "absl/time/time.h"
#include "client/rpc/credentials.h"
#include "common/net/endpoint.h"

namespace jobscope {

struct DialOptions {
  // Time limit for one connection attempt.
  absl::Duration connect_timeout = absl::Seconds(5);
  // A call whose answer is larger fails with RESOURCE_EXHAUSTED. The default is gRPC's own limit,
  // for answers that contain a trace; those to Describe and Stop are always limited to
  // kMaxSmallReplyBytes (rpc/arguments.h). gRPC holds an answer in memory until it is complete, and
  // nothing bounds the answers of all workers together: docs/capture.md.
  int max_reply_bytes = INT_MAX;
  // Null: HTTP/2 without TLS and token, which is all that stock workers support.
  std::shared_ptr<const ClientCredentials> credentials;
};

// Creates a channel that shares its connection with no other channel. Does not block: gRPC connects
// at the first call.
std::shared_ptr<grpc::Channel> Dial(const Endpoint& endpoint, const DialOptions& options);

}  // namespace jobscope

#endif  // CLIENT_RPC_DIAL_H_
