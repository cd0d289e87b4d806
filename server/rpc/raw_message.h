// SPDX-License-Identifier: Apache-2.0
//
// Parses and writes the messages of methods that receive raw bytes. All of ours do: to a typed
// method's unparsable request gRPC 1.51 answers UNIMPLEMENTED without a text, as if the method did
// not exist.
#ifndef SERVER_RPC_RAW_MESSAGE_H_
#define SERVER_RPC_RAW_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope {

// Returns INVALID_ARGUMENT, with a text that names the message, if the bytes cannot be parsed.
template <typename Message>
absl::Status ParseRequest(const grpc::ByteBuffer& bytes, Message* message) {
  grpc::ByteBuffer copy(bytes);  // copies references; the reader needs it mutable
  grpc::ProtoBufferReader reader(&copy);
  if (reader.status().ok() && message->ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the request of ", bytes.Length(), " bytes is not a ", message->GetTypeName()));
}

// For small messages: copies them. Also writes empty messages, because gRPC requires a buffer.
template <typename Message>
void WriteResponse(const Message& message, grpc::ByteBuffer* bytes) {
  const grpc::Slice slice(message.SerializeAsString());
  grpc::ByteBuffer buffer(&slice, 1);
  bytes->Swap(&buffer);
}

}  // namespace jobscope

#endif  // SERVER_RPC_RAW_MESSAGE_H_
