// SPDX-License-Identifier: Apache-2.0
#include "server/native/items/item_writer.h"

#include <algorithm>
#include <cstddef>

#include "server/limits.h"
#include "server/native/items/item_message.h"

namespace jobscope {

void ItemWriter::Write(const std::vector<xspace::HeldItem>& items, grpc::ByteBuffer* message) {
  const size_t first_bytes = items.front().item.body.size();
  if (chunks_ && first_bytes > limits::kMaxMessageItemBytes &&
      first_bytes <= limits::kMaxItemBytes) {
    WriteChunk(items.front(), message);
  } else {
    ItemMessage encoded = EncodeItems(items, limits::kMaxItemBytes);
    message->Swap(&encoded.bytes);
    next_ = items.back().item.number + 1;
    offset_ = 0;
    items_ += items.size();
    left_out_ += encoded.left_out;
  }
  bytes_ += message->Length();
}

void ItemWriter::WriteChunk(const xspace::HeldItem& item, grpc::ByteBuffer* message) {
  const size_t body_bytes = item.item.body.size();
  // Also when a client has resumed at an offset beyond the item's end.
  if (item.item.number != next_ || offset_ >= body_bytes) offset_ = 0;
  const size_t bytes = std::min<size_t>(body_bytes - offset_, limits::kMaxMessageItemBytes);
  grpc::ByteBuffer chunk = EncodeChunk(item, offset_, bytes);
  message->Swap(&chunk);
  next_ = item.item.number;
  offset_ += bytes;
  if (offset_ < body_bytes) return;
  ++next_;
  offset_ = 0;
  ++items_;
}

}  // namespace jobscope
