// SPDX-License-Identifier: Apache-2.0
#include "server/native/items/item_message.h"

#include <gtest/gtest.h>

#include <string>

#include "server/limits.h"
#include "tests/server/native/items/item_messages.h"

namespace jobscope {
namespace {

// Every kind, around the sizes at which a length takes one byte more and at which bodies are
// referred to.
TEST(ItemMessageTest, IsWhatProtobufWouldWrite) {
  xspace::Store store(16 << 20);
  v1::CaptureResponse expected;
  const size_t sizes[] = {0, 1, 100, 127, 128, 2047, 2048, 16'383, 16'384, 65'536, 2'097'152};
  for (const size_t size : sizes) {
    v1::RawPlane raw;
    raw.mutable_plane()->assign(size, static_cast<char>(size));
    ASSERT_TRUE(store.Append(xspace::ItemKind::kRawPlane, raw.SerializeAsString()));
    *expected.mutable_items()->add_items()->mutable_raw_plane() = raw;
    v1::Events events;
    events.set_count(static_cast<uint32_t>(size));
    ASSERT_TRUE(store.Append(xspace::ItemKind::kEvents, events.SerializeAsString()));
    *expected.mutable_items()->add_items()->mutable_events() = events;
  }
  v1::Summary summary;
  summary.set_session_id("s");
  ASSERT_TRUE(store.Append(xspace::ItemKind::kSummary, summary.SerializeAsString()));
  *expected.mutable_items()->add_items()->mutable_summary() = summary;
  for (int i = 0; i < expected.items().items_size(); ++i) {
    expected.mutable_items()->mutable_items(i)->set_number(static_cast<uint64_t>(i) + 1);
  }
  const ItemMessage message = EncodeItems(Read(store), limits::kMaxItemBytes);
  EXPECT_EQ(message.left_out, 0U);
  EXPECT_EQ(Parse(message.bytes).SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(message.bytes.Length(), expected.ByteSizeLong());
}

TEST(ItemMessageTest, OutlivesTheStore) {
  auto store = std::make_unique<xspace::Store>(4 << 20);
  v1::RawPlane raw;
  raw.mutable_plane()->assign(100'000, 'x');
  ASSERT_TRUE(store->Append(xspace::ItemKind::kRawPlane, raw.SerializeAsString()));
  const ItemMessage message = EncodeItems(Read(*store), limits::kMaxItemBytes);
  store->Release(1);
  store.reset();
  EXPECT_EQ(Parse(message.bytes).items().items(0).raw_plane().plane(), raw.plane());
}

TEST(ItemMessageTest, WhatIsTooLargeKeepsItsNumber) {
  xspace::Store store(4 << 20);
  ASSERT_TRUE(store.Append(xspace::ItemKind::kRawPlane, std::string(1'000, '\0')));
  ASSERT_TRUE(store.Append(xspace::ItemKind::kEvents, {}));
  const ItemMessage message = EncodeItems(Read(store), 999);
  EXPECT_EQ(message.left_out, 1U);
  const v1::CaptureResponse response = Parse(message.bytes);
  ASSERT_EQ(response.items().items_size(), 2);
  EXPECT_EQ(response.items().items(0).number(), 1U);
  EXPECT_TRUE(response.items().items(0).has_raw_plane());
  EXPECT_EQ(response.items().items(1).number(), 2U);
}

}  // namespace
}  // namespace jobscope
