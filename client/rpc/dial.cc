// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/dial.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include "rpc/arguments.h"

namespace jobscope {

std::shared_ptr<grpc::Channel> Dial(const Endpoint& endpoint, const DialOptions& options) {
  grpc::ChannelArguments arguments = MakeChannelArguments(options.max_reply_bytes);
  // No back-off that outlives a channel.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(options.connect_timeout)));
  if (options.credentials == nullptr) {
    return grpc::CreateCustomChannel(endpoint.target, grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  if (!options.credentials->server_name().empty()) {
    arguments.SetSslTargetNameOverride(options.credentials->server_name());
  }
  return grpc::CreateCustomChannel(endpoint.target, options.credentials->ForChannel(endpoint),
                                   arguments);
}

}  // namespace jobscope
