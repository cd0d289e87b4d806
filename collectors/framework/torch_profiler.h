// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_FRAMEWORK_TORCH_PROFILER_H_
#define COLLECTORS_FRAMEWORK_TORCH_PROFILER_H_

#include <memory>

#include "collectors/collector.h"
#include "collectors/framework/foreign_xspace_collector.h"

namespace jobscope {

// PyTorch's operators by its own profiler, where callbacks can't be had: through Python, and of
// versions that record all threads (2.9 does, 2.6 does not). See ForeignXSpaceCollector.
std::unique_ptr<Collector> MakeTorchProfiler(FrameworkEnvironment environment);

}  // namespace jobscope

#endif  // COLLECTORS_FRAMEWORK_TORCH_PROFILER_H_
