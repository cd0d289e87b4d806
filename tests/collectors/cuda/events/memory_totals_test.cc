// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/memory_totals.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "collectors/cuda/events/activity_names.h"

namespace jobscope::cuda {
namespace {

constexpr uint8_t kDeviceMemory = 3;
constexpr uint8_t kPinned = 2;

Activity Memory(uint8_t what, uint64_t address, uint64_t bytes, uint8_t kind = kDeviceMemory) {
  Activity memory;
  memory.type = ActivityType::kMemory;
  memory.sub_kind = what;
  memory.address = address;
  memory.bytes = bytes;
  memory.source_memory = kind;
  return memory;
}

TEST(MemoryTotalsTest, EachKindHasItsOwn) {
  MemoryTotals totals;
  EXPECT_EQ(totals.Apply(Memory(kMemoryAllocated, 0x10, 100)).allocated, 100);
  EXPECT_EQ(totals.Apply(Memory(kMemoryAllocated, 0x20, 7, kPinned)).allocated, 7);
  EXPECT_EQ(totals.Apply(Memory(kMemoryAllocated, 0x30, 50)).allocated, 150);
  // The record of a release may lack size and kind.
  const MemoryTotals::Change released = totals.Apply(Memory(kMemoryReleased, 0x10, 0, 0));
  EXPECT_EQ(released.bytes, 100);
  EXPECT_EQ(released.kind, kDeviceMemory);
  EXPECT_EQ(released.allocated, 50);
  EXPECT_EQ(released.peak, 150);
}

TEST(MemoryTotalsTest, ABlockFromBeforeTheCaptureIsNotInTheTotals) {
  MemoryTotals totals;
  const MemoryTotals::Change released = totals.Apply(Memory(kMemoryReleased, 0x10, 100));
  EXPECT_EQ(released.bytes, 100);
  EXPECT_EQ(released.allocated, 0);
}

TEST(MemoryTotalsTest, BlocksBeyondTheBoundAreLeftOutUntilOthersAreReleased) {
  constexpr uint64_t kMost = MemoryTotals::kMaxBlocks;
  MemoryTotals totals;
  for (uint64_t i = 1; i <= kMost; ++i) totals.Apply(Memory(kMemoryAllocated, i, 2));
  EXPECT_EQ(totals.left_out(), 0u);
  const MemoryTotals::Change beyond = totals.Apply(Memory(kMemoryAllocated, kMost + 1, 2));
  EXPECT_EQ(beyond.bytes, 2);
  EXPECT_EQ(beyond.allocated, static_cast<int64_t>(2 * kMost));
  EXPECT_EQ(totals.left_out(), 1u);
  // What was not added is not subtracted either.
  const int64_t rest = totals.Apply(Memory(kMemoryReleased, kMost + 1, 2)).allocated;
  EXPECT_EQ(rest, static_cast<int64_t>(2 * kMost));
  totals.Apply(Memory(kMemoryReleased, 1, 2));
  const int64_t full = totals.Apply(Memory(kMemoryAllocated, kMost + 2, 2)).allocated;
  EXPECT_EQ(full, static_cast<int64_t>(2 * kMost));
  EXPECT_EQ(totals.left_out(), 1u);
}

}  // namespace
}  // namespace jobscope::cuda
