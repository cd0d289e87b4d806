// SPDX-License-Identifier: Apache-2.0
//
// What every channel and every server of ours has in common: bounds on what the other side can make
// it hold. The peer may be anybody: a port's holder, a stock server, a caller without credentials.
#ifndef RPC_ARGUMENTS_H_
#define RPC_ARGUMENTS_H_

#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/status.h>

namespace jobscope {

// Of an answer that is no trace: Describe, Stop. Real ones take under 16 KiB.
inline constexpr int kMaxSmallReplyBytes = 256 << 10;

// For a channel whose messages have at most `max_reply_bytes`; larger ones end the call with
// RESOURCE_EXHAUSTED. Answers to Describe and Stop are at most kMaxSmallReplyBytes in any case.
//   - Nothing is compressed. gRPC bounds a message before it inflates it: 65 KB become 70 MB.
//   - Up to kMaxSmallReplyBytes, the channel also has a quota of memory of its own, because gRPC
//     takes in a whole message before it looks at its size.
//   - No retries, no proxy, no look-up of settings, a connection of its own.
grpc::ChannelArguments MakeChannelArguments(int max_reply_bytes);

// For a server that takes requests of at most `max_request_bytes`. Nothing is compressed.
void SetServerArguments(int max_request_bytes, grpc::ServerBuilder* builder);

// Whether this status is gRPC's own, of an answer that is over the limit.
bool IsTooLarge(const grpc::Status& status);

// Whether this status is gRPC's own, of an answer that is compressed. Its code, UNIMPLEMENTED, is
// also that of a method that the peer does not have.
bool IsCompressed(const grpc::Status& status);

}  // namespace jobscope

#endif  // RPC_ARGUMENTS_H_
