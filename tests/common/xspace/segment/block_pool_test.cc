// SPDX-License-Identifier: Apache-2.0
#include "common/xspace/segment/block_pool.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
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

// Returns whether the kernel may use huge pages at this address: a mapping's last line in smaps has
// "hg".
bool MayBeHuge(const char* data) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  std::ifstream smaps("/proc/self/smaps");
  bool is_here = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      is_here = begin <= address && address < end;
    } else if (is_here && line.compare(0, 8, "VmFlags:") == 0) {
      return line.find(" hg") != std::string::npos;
    }
  }
  return false;
}

TEST(BlockPoolTest, BlocksOfALargePoolAreWholeHugePages) {
  const bool has_huge_pages =
      std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled").is_open();
  const auto pool = std::make_shared<BlockPool>(64 * kMiB, kBlockBytes);
  std::vector<std::shared_ptr<char>> blocks;
  const size_t before = AddressSpaceBytes();
  while (std::shared_ptr<char> block = pool->Take(kBlockBytes, 64 * kMiB)) {
    const bool is_first = pool->in_use_bytes() <= 4 * kMiB;
    EXPECT_EQ(MayBeHuge(block.get()), has_huge_pages && !is_first) << blocks.size();
    if (!is_first) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block.get()) % kBlockBytes, 0U);
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
