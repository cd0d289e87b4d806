// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/jax_collector.h"

#include <utility>

#include "collectors/framework/jax_session.py.h"
#include "common/xspace/segment/trace_planes.h"

namespace jobscope {

std::unique_ptr<Collector> MakeJaxCollector(FrameworkEnvironment environment) {
  framework::ProfilerKind kind;
  kind.name = "jax";
  kind.origin = "JAX";
  kind.module = "jaxlib";
  kind.script = python::kJaxSessionPy;
  kind.segment_source = kSourceJax;
  kind.step_calls = framework::kJaxCalls;
  kind.has_the_loop = true;
  return std::make_unique<framework::ForeignXSpaceCollector>(std::move(kind),
                                                             std::move(environment));
}

}  // namespace jobscope
