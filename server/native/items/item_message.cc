// SPDX-License-Identifier: Apache-2.0
#include "server/native/items/item_message.h"

#include <grpcpp/support/slice.h>

#include <memory>
#include <string>
#include <string_view>

#include "common/xspace/wire/wire.h"

namespace jobscope {
namespace {

using xspace::AppendVarint;
using xspace::BytesFieldSize;
using xspace::VarintSize;

// Smallest body that is referred to: a slice costs about 150 bytes of bookkeeping, so smaller
// bodies are cheaper to copy.
constexpr size_t kMinReferredBytes = 2048;

// All tags fit one byte: CaptureResponse.items, Items.items, Item.number; the body's tag is its
// kind.
constexpr char kResponseItemsTag = (4 << 3) | 2;
constexpr char kResponseChunkTag = (6 << 3) | 2;
constexpr char kItemTag = (1 << 3) | 2;
constexpr char kNumberTag = (1 << 3) | 0;

size_t ItemBytes(uint64_t number, size_t body_bytes) {
  return 1 + VarintSize(number) + BytesFieldSize(body_bytes);
}

// Returns a slice over part of an item's body, which shares ownership of its block.
grpc::Slice Refer(const xspace::HeldItem& held, std::string_view bytes) {
  auto* owner = new std::shared_ptr<const void>(held.block);
  // gRPC never writes to a slice, but its constructor takes a non-const pointer.
  return grpc::Slice(
      const_cast<char*>(bytes.data()), bytes.size(),
      [](void* user_data) { delete static_cast<std::shared_ptr<const void>*>(user_data); }, owner);
}

}  // namespace

ItemMessage EncodeItems(const std::vector<xspace::HeldItem>& items, size_t max_item_bytes) {
  ItemMessage message;
  const auto body_of = [max_item_bytes](const xspace::HeldItem& held) {
    return held.item.body.size() > max_item_bytes ? std::string_view() : held.item.body;
  };
  size_t total = 0;
  for (const xspace::HeldItem& held : items) {
    const size_t bytes = ItemBytes(held.item.number, body_of(held).size());
    total += BytesFieldSize(bytes);
  }
  std::vector<grpc::Slice> slices;
  std::string copied{kResponseItemsTag};
  AppendVarint(total, &copied);
  for (const xspace::HeldItem& held : items) {
    const std::string_view body = body_of(held);
    if (body.size() != held.item.body.size()) ++message.left_out;
    copied.push_back(kItemTag);
    AppendVarint(ItemBytes(held.item.number, body.size()), &copied);
    copied.push_back(kNumberTag);
    AppendVarint(held.item.number, &copied);
    copied.push_back(static_cast<char>((static_cast<uint32_t>(held.item.kind) << 3) | 2));
    AppendVarint(body.size(), &copied);
    if (body.size() < kMinReferredBytes) {
      copied.append(body);
      continue;
    }
    slices.emplace_back(copied);
    copied.clear();
    slices.push_back(Refer(held, body));
  }
  if (!copied.empty()) slices.emplace_back(copied);
  grpc::ByteBuffer bytes(slices.data(), slices.size());
  message.bytes.Swap(&bytes);
  return message;
}

grpc::ByteBuffer EncodeChunk(const xspace::HeldItem& item, size_t offset, size_t bytes) {
  const std::string_view data = item.item.body.substr(offset, bytes);
  std::string head;
  char tag = 0;
  for (const uint64_t value : {item.item.number, uint64_t{static_cast<uint32_t>(item.item.kind)},
                               uint64_t{item.item.body.size()}, uint64_t{offset}}) {
    tag = static_cast<char>(tag + (1 << 3));  // Chunk.number, kind, body_bytes, offset: varints
    head.push_back(tag);
    AppendVarint(value, &head);
  }
  head.push_back(static_cast<char>((5 << 3) | 2));  // Chunk.data
  AppendVarint(data.size(), &head);
  std::string message{kResponseChunkTag};
  AppendVarint(head.size() + data.size(), &message);
  message.append(head);
  grpc::Slice slices[] = {grpc::Slice(message), Refer(item, data)};
  return grpc::ByteBuffer(slices, 2);
}

}  // namespace jobscope
