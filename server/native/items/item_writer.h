// SPDX-License-Identifier: Apache-2.0
//
// Writes the items of a capture as the messages of one stream.
#ifndef SERVER_NATIVE_ITEMS_ITEM_WRITER_H_
#define SERVER_NATIVE_ITEMS_ITEM_WRITER_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <vector>

#include "common/xspace/segment/store.h"

namespace jobscope {

// Knows which item, and which byte of it, is next; counts what it has written. Writes an item that
// does not fit in a message in chunks, if the client accepts them. Not thread-safe.
class ItemWriter {
 public:
  // Begins at byte `offset` of item `first`: 0, unless the client has a part of it.
  explicit ItemWriter(bool chunks = false, uint64_t first = 1, uint64_t offset = 0)
      : chunks_(chunks), first_(first), next_(first), offset_(offset) {}

  uint64_t first() const { return first_; }
  uint64_t next() const { return next_; }
  uint64_t items() const { return items_; }        // that are written whole
  uint64_t bytes() const { return bytes_; }        // of messages
  uint64_t left_out() const { return left_out_; }  // items that are larger than any that travels

  // Writes the next message. `items` are those from next() on, as many as fit; at least one.
  void Write(const std::vector<xspace::HeldItem>& items, grpc::ByteBuffer* message);

 private:
  void WriteChunk(const xspace::HeldItem& item, grpc::ByteBuffer* message);

  bool chunks_;
  uint64_t first_;
  uint64_t next_;
  uint64_t offset_;  // in the body of that item, if it is written in chunks
  uint64_t items_ = 0;
  uint64_t bytes_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_ITEMS_ITEM_WRITER_H_
