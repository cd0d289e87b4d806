// SPDX-License-Identifier: Apache-2.0
#include "server/native/items/item_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "server/limits.h"
#include "tests/server/native/items/item_messages.h"

namespace jobscope {
namespace {

std::string Body(size_t bytes) {
  v1::RawPlane raw;
  raw.mutable_plane()->assign(bytes, 'x');
  return raw.SerializeAsString();
}

TEST(ItemWriterTest, WritesALargeItemInChunksIfTheClientAcceptsThem) {
  xspace::Store store(4 << 20);
  const std::string large = Body(limits::kMaxMessageItemBytes);
  ASSERT_TRUE(store.Append(xspace::ItemKind::kRawPlane, large));
  ASSERT_TRUE(store.Append(xspace::ItemKind::kRawPlane, Body(1)));
  ItemWriter writer(/*chunks=*/true);
  std::string body;
  uint64_t bytes = 0;
  while (writer.next() == 1) {
    grpc::ByteBuffer message;
    writer.Write(Read(store), &message);
    const v1::CaptureResponse response = Parse(message);
    EXPECT_EQ(response.chunk().offset(), body.size());
    ASSERT_FALSE(response.chunk().data().empty());
    body += response.chunk().data();
    bytes += message.Length();
  }
  EXPECT_EQ(body, large);
  EXPECT_EQ(writer.items(), 1u);
  grpc::ByteBuffer message;
  writer.Write(store.Read(2, 1), &message);
  EXPECT_EQ(Parse(message).items().items(0).number(), 2u);
  EXPECT_EQ(writer.next(), 3u);
  EXPECT_EQ(writer.items(), 2u);
  EXPECT_EQ(writer.bytes(), bytes + message.Length());

  ItemWriter whole;
  whole.Write(Read(store), &message);
  EXPECT_EQ(Parse(message).items().items_size(), 2);
  EXPECT_EQ(whole.next(), 3u);
}

TEST(ItemWriterTest, ResumesInsideOfAnItemUnlessItEndsBefore) {
  xspace::Store store(4 << 20);
  const std::string large = Body(limits::kMaxMessageItemBytes);
  ASSERT_TRUE(store.Append(xspace::ItemKind::kRawPlane, large));
  for (const uint64_t offset : {uint64_t{0}, uint64_t{5}, uint64_t{large.size()}}) {
    ItemWriter writer(/*chunks=*/true, /*first=*/1, offset);
    grpc::ByteBuffer message;
    writer.Write(Read(store), &message);
    EXPECT_EQ(Parse(message).chunk().offset(), offset == large.size() ? 0 : offset);
    EXPECT_EQ(writer.next(), offset == 5 ? 2u : 1u) << "the rest fits in one chunk";
  }
}

}  // namespace
}  // namespace jobscope
