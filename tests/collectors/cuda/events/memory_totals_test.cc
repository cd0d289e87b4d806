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

}  // namespace
}  // namespace jobscope::cuda
