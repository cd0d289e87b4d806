// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/activity_attributes.h"

#include <algorithm>

#include "collectors/cuda/tracing/left_kinds.h"
#include "collectors/cuda/tracing/state_log.h"

namespace jobscope::cuda {
namespace {

// Minimum buffers of CUPTI on the GPU per context: one is written while others are read.
constexpr size_t kMinDeviceBuffers = 2;

}  // namespace

void ActivityAttributes::Set(uint64_t device_buffer_bytes) {
  if (api_->cuptiActivityGetAttribute == nullptr || api_->cuptiActivitySetAttribute == nullptr) {
    return;
  }
  if (LeftKinds::Get().kernels_stay()) return;  // set already, and CUPTI records
  report_.call = "cuptiActivitySetAttribute";
  size_t buffer_bytes = 0;
  size_t limit = 0;
  size_t size = sizeof(buffer_bytes);
  if (api_->cuptiActivityGetAttribute(kDeviceBufferSize, &size, &buffer_bytes) == kCuptiSuccess &&
      api_->cuptiActivityGetAttribute(kDeviceBufferPoolLimit, &size, &limit) == kCuptiSuccess &&
      buffer_bytes > 0) {
    size_t ours =
        std::max(kMinDeviceBuffers, static_cast<size_t>(device_buffer_bytes / buffer_bytes));
    if (ours < limit &&
        api_->cuptiActivitySetAttribute(kDeviceBufferPoolLimit, &size, &ours) == kCuptiSuccess) {
      own_pool_limit_ = limit;
    }
  }
  // One buffer for all threads makes them contend. 13 has one per thread, but Kineto switches that
  // off after each of its recordings. A change is undefined while something records, which nothing
  // does here. Before 12.8 a flush races with the threads.
  if (api_->version < kCupti12_8) return;
  uint8_t per_thread = 0;
  size = sizeof(per_thread);
  if (api_->cuptiActivityGetAttribute(kPerThreadBuffer, &size, &per_thread) != kCuptiSuccess ||
      per_thread != 0) {
    return;
  }
  per_thread = 1;
  (void)api_->cuptiActivitySetAttribute(kPerThreadBuffer, &size, &per_thread);
}

void ActivityAttributes::Restore() {
  if (!own_pool_limit_.has_value() || LeftKinds::Get().kernels_stay()) return;
  if (StateLog::Get().fatal()) return;
  report_.call = "cuptiActivitySetAttribute";
  size_t limit = *own_pool_limit_;
  size_t size = sizeof(limit);
  (void)api_->cuptiActivitySetAttribute(kDeviceBufferPoolLimit, &size, &limit);
  own_pool_limit_.reset();
}

}  // namespace jobscope::cuda
