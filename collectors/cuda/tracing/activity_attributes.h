// SPDX-License-Identifier: Apache-2.0
//
// Sets CUPTI's attributes for a session.
#ifndef COLLECTORS_CUDA_TRACING_ACTIVITY_ATTRIBUTES_H_
#define COLLECTORS_CUDA_TRACING_ACTIVITY_ATTRIBUTES_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/tracing/call_report.h"

namespace jobscope::cuda {

// Limits CUPTI's memory on the GPU for the time of a session, and gives each thread a buffer.
// Failures are ignored: they cost memory or time, but no record. Call thread only.
class ActivityAttributes {
 public:
  // All pointers must outlive this object.
  ActivityAttributes(const CuptiApi* api, CallReport* report) : api_(api), report_(*report) {}
  ActivityAttributes(const ActivityAttributes&) = delete;
  ActivityAttributes& operator=(const ActivityAttributes&) = delete;

  // Does nothing where kernels stay traced: a change is undefined while something records.
  void Set(uint64_t device_buffer_bytes);
  // Restores the limit, except where kernels stay traced.
  void Restore();

 private:
  const CuptiApi* const api_;
  CallReport& report_;
  std::optional<size_t> own_pool_limit_;  // CUPTI's, before jobscope lowered it
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_ACTIVITY_ATTRIBUTES_H_
