// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/framework_collectors.h"

#include <memory>
#include <utility>

#include "collectors/framework/jax_session.py.h"
#include "collectors/framework/tensorflow_session.py.h"
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
  return std::make_unique<framework::ProfilerCollector>(std::move(kind), std::move(environment));
}

std::unique_ptr<Collector> MakeTensorflowCollector(FrameworkEnvironment environment) {
  framework::ProfilerKind kind;
  kind.name = "tensorflow";
  kind.origin = "TensorFlow";
  // The last module that `import tensorflow` loads, and the one that the script needs.
  kind.module = "tensorflow.python.profiler.internal._pywrap_profiler";
  kind.script = python::kTensorflowSessionPy;
  kind.segment_source = kSourceTensorflow;
  kind.step_calls = framework::kTensorflowCalls;
  return std::make_unique<framework::ProfilerCollector>(std::move(kind), std::move(environment));
}

}  // namespace jobscope
