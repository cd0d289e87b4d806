// SPDX-License-Identifier: Apache-2.0
//
// Writes the warnings of a session of the CUDA collector.
#ifndef COLLECTORS_CUDA_SESSION_WARNINGS_H_
#define COLLECTORS_CUDA_SESSION_WARNINGS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectors/cuda/events/gpu_plane.h"
#include "collectors/cuda/session_account.h"
#include "collectors/cuda/tracing/buffer_pool.h"

namespace jobscope::cuda {

// Returns one sentence per kind of problem, with its count. `clock_steps`: how often the system's
// clock was set.
std::vector<std::string> SessionWarnings(const BufferPool::Counts& buffers,
                                         const SessionAccount& account, size_t clock_steps,
                                         const LaunchOrder& order);

// For a torch.profiler block that began during the session.
std::string TorchProfilerWarning();

// For a CUPTI of that version whose kernels stay traced.
std::string KernelsStayWarning(uint32_t version);

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_SESSION_WARNINGS_H_
