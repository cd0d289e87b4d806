// SPDX-License-Identifier: Apache-2.0
#include "collectors/inferred/compilations.h"

#include <algorithm>
#include <array>

namespace jobscope::framework {
namespace {

constexpr std::array<std::string_view, 15> kNames = {
    // JAX: tracing, lowering, compiling.
    "trace_to_jaxpr",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_final",
    "lower_jaxpr_to_module",
    "lower_sharding_computation",
    "backend_compile",
    "backend_compile_and_load",
    "compile_or_get_cached",
    // tf.function: tracing.
    "tf.function-graph_building",
    // XLA, in either framework.
    "XlaCompile",
    "XlaCompileOp",
    "CpuCompiler::RunBackend",
    "GpuCompiler::RunBackend",
    "CpuCompiler::CompileCpuExecutable",
    "GpuCompiler::CompileToBackendResult",
};

}  // namespace

bool IsCompilation(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace jobscope::framework
