// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/occupancy.h"

#include <gtest/gtest.h>

namespace jobscope::cuda {
namespace {

TEST(OccupancyTest, FollowsTheNarrowestLimit) {
  DeviceInfo h100;
  h100.compute_major = 9;
  h100.max_threads_per_multiprocessor = 2048;
  h100.max_blocks_per_multiprocessor = 32;
  h100.registers_per_multiprocessor = 65536;
  h100.shared_bytes_per_multiprocessor = 233472;
  h100.reserved_shared_bytes_per_block = 1024;
  Activity kernel;
  kernel.block[0] = 256;
  kernel.block[1] = kernel.block[2] = 1;
  kernel.registers = 32;
  EXPECT_DOUBLE_EQ(*OccupancyPercent(kernel, h100), 100);
  kernel.registers = 64;  // 32 warps
  EXPECT_DOUBLE_EQ(*OccupancyPercent(kernel, h100), 50);
  kernel.registers = 32;
  kernel.dynamic_shared_bytes = 100 * 1024;  // two blocks of 8 warps
  EXPECT_DOUBLE_EQ(*OccupancyPercent(kernel, h100), 25);
  kernel.dynamic_shared_bytes = 0;
  kernel.block[0] = 32;  // 32 blocks of one warp
  EXPECT_DOUBLE_EQ(*OccupancyPercent(kernel, h100), 50);
  EXPECT_FALSE(OccupancyPercent(kernel, DeviceInfo()).has_value());
  kernel.block[0] = -5;
  EXPECT_FALSE(OccupancyPercent(kernel, h100).has_value());
}

}  // namespace
}  // namespace jobscope::cuda
