// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/events/occupancy.h"

#include <algorithm>
#include <cstdint>

namespace jobscope::cuda {
namespace {

constexpr int64_t kWarp = 32;
constexpr int64_t kRegisterUnit = 256;  // per warp
constexpr int64_t kSchedulers = 4;

int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

std::optional<double> OccupancyPercent(const Activity& kernel, const DeviceInfo& device) {
  const int64_t max_threads = device.max_threads_per_multiprocessor;
  const int64_t max_blocks = device.max_blocks_per_multiprocessor;
  if (max_threads < kWarp || max_blocks <= 0) return std::nullopt;
  int64_t threads = 1;
  for (const int32_t extent : kernel.block) {
    if (extent <= 0 || extent > 1024) return std::nullopt;
    threads *= extent;
  }
  const int64_t max_warps = max_threads / kWarp;
  const int64_t warps = RoundUp(threads, kWarp) / kWarp;
  if (warps > max_warps) return std::nullopt;
  int64_t blocks = std::min(max_blocks, max_warps / warps);
  if (kernel.registers > 0 && device.registers_per_multiprocessor > 0) {
    const int64_t per_warp = RoundUp(kernel.registers * kWarp, kRegisterUnit);
    const int64_t fitting =
        device.registers_per_multiprocessor / per_warp / kSchedulers * kSchedulers;
    blocks = std::min(blocks, fitting / warps);
  }
  const int64_t shared_bytes = std::max<int64_t>(kernel.static_shared_bytes, 0) +
                               std::max<int64_t>(kernel.dynamic_shared_bytes, 0);
  if (shared_bytes > 0 && device.shared_bytes_per_multiprocessor > 0) {
    const int64_t unit = device.compute_major >= 7 ? 128 : 256;
    const int64_t per_block = RoundUp(shared_bytes + device.reserved_shared_bytes_per_block, unit);
    blocks = std::min(blocks, device.shared_bytes_per_multiprocessor / per_block);
  }
  return 100.0 * static_cast<double>(blocks * warps) / static_cast<double>(max_warps);
}

}  // namespace jobscope::cuda
