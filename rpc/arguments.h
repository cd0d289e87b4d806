// SPDX-License-Identifier: Apache-2.0
//
// Sets the arguments of every channel and server of ours: bounds on the memory that the peer can
// make it use. The peer may be anybody: the program that holds a port, a stock server, a caller
// without credentials.
#ifndef RPC_ARGUMENTS_H_
#define RPC_ARGUMENTS_H_

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

namespace jobscope {

// Limit of an answer that is no trace: Describe, Stop. Real ones take under 16 KiB.
inline constexpr int kMaxSmallReplyBytes = 256 << 10;

// Returns the arguments of a channel whose messages have at most `max_reply_bytes`; larger ones end
// the call with RESOURCE_EXHAUSTED. Answers to Describe and Stop are limited to kMaxSmallReplyBytes
// in any case.
//   - No compression. gRPC checks a message's size before it inflates it: 65 KB become 70 MB.
//   - Up to kMaxSmallReplyBytes, the channel also has its own memory quota, because gRPC reads a
//     whole message before it checks its size.
//   - No retries, no proxy, no look-up of settings, a connection of its own.
grpc::ChannelArguments MakeChannelArguments(int max_reply_bytes);

// Configures a server for requests of at most `max_request_bytes`, without compression.
void SetServerArguments(int max_request_bytes, grpc::ServerBuilder* builder);

// Returns whether this is gRPC's own status for an answer above the limit.
bool IsTooLarge(const grpc::Status& status);

// Returns whether this is gRPC's own status for a compressed answer. Its code, UNIMPLEMENTED, is
// also that of a method that the peer lacks.
bool IsCompressed(const grpc::Status& status);

}  // namespace jobscope

#endif  // RPC_ARGUMENTS_H_
