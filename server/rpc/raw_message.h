// SPDX-License-Identifier: Apache-2.0
//
// Messages of methods that see raw bytes. All of ours do: gRPC 1.51 answers a typed method's
// request that cannot be parsed with UNIMPLEMENTED and no text, as if there were no such method.
#ifndef SERVER_RPC_RAW_MESSAGE_H_
#define SERVER_RPC_RAW_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope {

// INVALID_ARGUMENT, with a text that names the message, where the bytes are none.
template <typename Message>
absl::Status ParseRequest(const grpc::ByteBuffer& bytes, Message* message) {
  grpc::ByteBuffer copy(bytes);  // of references; the reader wants it mutable
  grpc::ProtoBufferReader reader(&copy);
  if (reader.status().ok() && message->ParseFromZeroCopyStream(&reader)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the request of ", bytes.Length(), " bytes is not a ", message->GetTypeName()));
}

// For small messages: they are copied. An empty message is written, too: gRPC wants a buffer.
template <typename Message>
void WriteResponse(const Message& message, grpc::ByteBuffer* bytes) {
  const grpc::Slice slice(message.SerializeAsString());
  grpc::ByteBuffer buffer(&slice, 1);
  bytes->Swap(&buffer);
}

}  // namespace jobscope

#endif  // SERVER_RPC_RAW_MESSAGE_H_
