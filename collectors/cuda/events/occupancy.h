// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_CUDA_EVENTS_OCCUPANCY_H_
#define COLLECTORS_CUDA_EVENTS_OCCUPANCY_H_

#include <optional>

#include "collectors/cuda/libraries/driver_api.h"
#include "collectors/cuda/records/record.h"

namespace jobscope::cuda {

// Returns the theoretical occupancy of a kernel: the warps that fit on a multiprocessor at once, in
// percent of its maximum. Computed from the launch shape and the GPU's limits by the rules of
// NVIDIA's occupancy calculator for compute capability 3.0 and later (registers are allocated to
// warps in units of 256, to blocks in whole warps of four schedulers). nullopt if a limit is
// unknown.
std::optional<double> OccupancyPercent(const Activity& kernel, const DeviceInfo& device);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_EVENTS_OCCUPANCY_H_
