// SPDX-License-Identifier: Apache-2.0
//
// Finds the trace in a serialised ProfileResponse that is stored in slices, without parsing or
// joining it.
#ifndef CLIENT_TENSORFLOW_REPLY_INDEX_H_
#define CLIENT_TENSORFLOW_REPLY_INDEX_H_

#include <grpcpp/support/slice.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace jobscope {

// Bytes of the reply, from its start.
struct ReplyRange {
  uint64_t begin = 0;
  uint64_t size = 0;
};

struct ReplyIndex {
  // The XSpace, in wire order. Several ranges: the field was sent more than once, and its parts
  // form one message.
  std::vector<ReplyRange> xspace;
  // Names of tool_data that are not traces; at most 100.
  std::vector<std::string> other_tools;
  bool empty_trace = false;
};

// Reads the reply's top level: only field headers, whatever the size. An `xspace` takes precedence
// over tool_data named "xplane.pb". Foreign bytes: returns kInvalidArgument if they are no
// ProfileResponse.
absl::StatusOr<ReplyIndex> IndexReply(const std::vector<grpc::Slice>& slices);

}  // namespace jobscope

#endif  // CLIENT_TENSORFLOW_REPLY_INDEX_H_
