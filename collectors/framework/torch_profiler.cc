// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/torch_profiler.h"

#include <utility>

#include "collectors/framework/torch_session.py.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope {

std::unique_ptr<Collector> MakeTorchProfiler(FrameworkEnvironment environment) {
  framework::ProfilerKind kind;
  kind.name = "torch";
  kind.origin = "PyTorch";
  kind.module = "torch.autograd.profiler";
  kind.script = python::kTorchSessionPy;
  kind.segment_source = kSourceTorchProfiler;
  kind.lines_are_threads = true;
  kind.takes_shapes = true;
  return std::make_unique<framework::ForeignXSpaceCollector>(std::move(kind),
                                                             std::move(environment));
}

}  // namespace jobscope
