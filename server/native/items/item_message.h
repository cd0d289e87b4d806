// SPDX-License-Identifier: Apache-2.0
//
// Encodes items as CaptureResponse.items over the store's own memory.
#ifndef SERVER_NATIVE_ITEMS_ITEM_MESSAGE_H_
#define SERVER_NATIVE_ITEMS_ITEM_MESSAGE_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <vector>

#include "common/xspace/segment/store.h"

namespace jobscope {

struct ItemMessage {
  grpc::ByteBuffer bytes;
  uint64_t left_out = 0;  // items over `max_item_bytes`, whose bodies are empty here
};

// Copies only small bodies: gRPC shares ownership of the blocks of the others until it has sent
// them. An item over `max_item_bytes` is sent without its body but with its number, so that the
// sequence has no gap.
ItemMessage EncodeItems(const std::vector<xspace::HeldItem>& items, size_t max_item_bytes);

// Encodes CaptureResponse.chunk: `bytes` (at least 1) of the item's body from `offset` on. Does not
// copy them either.
grpc::ByteBuffer EncodeChunk(const xspace::HeldItem& item, size_t offset, size_t bytes);

}  // namespace jobscope

#endif  // SERVER_NATIVE_ITEMS_ITEM_MESSAGE_H_
