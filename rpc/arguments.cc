// SPDX-License-Identifier: Apache-2.0
#include "rpc/arguments.h"

#include <grpcpp/resource_quota.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

// Allows only GRPC_COMPRESS_NONE.
constexpr int kIdentityOnly = 1 << GRPC_COMPRESS_NONE;
// Memory quota of a channel for small answers; its own buffers take some hundred KiB. With it, an
// answer of 512 MiB cost 8 MiB, without it 515 (gRPC 1.51).
constexpr size_t kSmallChannelBytes = 4 << 20;

}  // namespace

grpc::ChannelArguments MakeChannelArguments(int max_reply_bytes) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, kIdentityOnly);
  // Otherwise gRPC 1.51 may inflate an answer before it refuses it.
  arguments.SetInt(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  arguments.SetMaxReceiveMessageSize(max_reply_bytes);
  arguments.SetServiceConfigJSON(absl::StrCat(
      R"({"methodConfig":[{"name":[)", R"({"service":"jobscope.v1.Profiler","method":"Describe"},)",
      R"({"service":"jobscope.v1.Profiler","method":"Stop"}],)", R"("maxResponseMessageBytes":)",
      kMaxSmallReplyBytes, "}]}"));
  if (max_reply_bytes <= kMaxSmallReplyBytes) {
    grpc::ResourceQuota quota;
    quota.Resize(kSmallChannelBytes);
    arguments.SetResourceQuota(quota);
  }
  // The caller counts attempts and their time.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  // Unused statistics about each channel, connection and call.
  arguments.SetInt(GRPC_ARG_ENABLE_CHANNELZ, 0);
  // A web proxy does not lead to workers.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // No TXT look-up per worker.
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  return arguments;
}

void SetServerArguments(int max_request_bytes, grpc::ServerBuilder* builder) {
  // The builder's own setting, which would override the channel argument.
  for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
    builder->SetCompressionAlgorithmSupportStatus(algorithm, false);
  }
  builder->AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
  builder->SetMaxReceiveMessageSize(max_request_bytes);
}

bool IsTooLarge(const grpc::Status& status) {
  // The second text is that of the quota.
  return status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED &&
         (absl::StrContains(status.error_message(), "larger than max") ||
          absl::StrContains(status.error_message(), "Buffers full"));
}

bool IsCompressed(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNIMPLEMENTED &&
         absl::StrContains(status.error_message(), "ompression algorithm");
}

}  // namespace jobscope
