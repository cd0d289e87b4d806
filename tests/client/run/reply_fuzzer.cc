// SPDX-License-Identifier: Apache-2.0
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "client/wire/reply_index.h"

// The first byte says how the answer is cut into slices; the rest is the answer. What is found lies
// within it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t slice_size = data[0] + size_t{1};
  ++data;
  --size;
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < size; at += slice_size) {
    slices.emplace_back(data + at, std::min(slice_size, size - at));
  }
  const auto index = jobscope::IndexReply(slices);
  if (!index.ok()) return 0;
  for (const jobscope::ReplyRange& range : index->xspace) {
    if (range.begin > size || range.size > size - range.begin) std::abort();
  }
  return 0;
}
