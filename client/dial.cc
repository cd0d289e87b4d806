// SPDX-License-Identifier: Apache-2.0
#include "client/dial.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

namespace jobscope {

std::shared_ptr<grpc::Channel> Dial(const Endpoint& endpoint, const DialOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(options.max_reply_bytes);
  // Attempts, and the time each may take, are ours to count: no retry, no back-off that outlives a
  // channel.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS,
                   static_cast<int>(absl::ToInt64Milliseconds(options.connect_timeout)));
  // A proxy that is set for the web does not lead to workers.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // No TXT look-up per worker.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
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
