// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_CUDA_RECORDS_OCCUPANCY_H_
#define COLLECTORS_CUDA_RECORDS_OCCUPANCY_H_

#include <optional>

#include "collectors/cuda/libraries/driver_api.h"
#include "collectors/cuda/records/record.h"

namespace jobscope::cuda {

// Warps that fit on a multiprocessor at once when this kernel runs, in percent of what the
// multiprocessor can hold. From the launch's shape and the GPU's limits alone, by the rules of
// NVIDIA's occupancy calculator for compute capability 3.0 and later (registers are given to warps
// in units of 256, to blocks in whole warps of four schedulers). nullopt where a limit is not
// known.
std::optional<double> OccupancyPercent(const Activity& kernel, const DeviceInfo& device);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_OCCUPANCY_H_
