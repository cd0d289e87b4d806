// SPDX-License-Identifier: Apache-2.0
//
// Connects the client to a worker: the same for every protocol.
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
  // A larger message fails with RESOURCE_EXHAUSTED. gRPC's own limit is 2^31 - 1. Answers other
  // than traces are bounded in any case (rpc/arguments.h). A message is in memory until it is
  // complete, and nothing bounds those of all workers together: docs/capture.md.
  int max_reply_bytes = INT_MAX;
  // Null: plain HTTP/2, as stock workers use it.
  std::shared_ptr<const ClientCredentials> credentials;
};

// Creates a channel with its own connection, which is established at the first call. Returns at
// once.
std::shared_ptr<grpc::Channel> Dial(const Endpoint& endpoint, const DialOptions& options);

}  // namespace jobscope

#endif  // CLIENT_RPC_DIAL_H_
