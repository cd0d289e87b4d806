// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/block_pool.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

namespace jobscope::xspace {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBlockBytes = 2 * kMiB;

size_t AddressSpaceBytes() {
  size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

TEST(BlockPoolTest, BlocksOfALargePoolAreWholeHugePages) {
  const auto pool = std::make_shared<BlockPool>(64 * kMiB, kBlockBytes);
  std::vector<std::shared_ptr<char>> blocks;
  const size_t before = AddressSpaceBytes();
  while (std::shared_ptr<char> block = pool->Take(kBlockBytes, 64 * kMiB)) {
    if (pool->in_use_bytes() > 3 * kBlockBytes) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % kBlockBytes, 0U) << blocks.size();
    }
    std::memset(block.get(), 1, kBlockBytes);
    blocks.push_back(std::move(block));
  }
  ASSERT_EQ(blocks.size(), 32U);
  // What aligning cuts off is unmapped: else 126 MiB.
  EXPECT_LE(AddressSpaceBytes() - before, 70 * kMiB);
  blocks.clear();
  EXPECT_LE(pool->mapped_bytes(), 4 * kMiB);
  pool->Close();
  EXPECT_EQ(pool->mapped_bytes(), 0U);
}

}  // namespace
}  // namespace jobscope::xspace
