// SPDX-License-Identifier: Apache-2.0
#include "analysis/blame/bounds.h"

namespace jobscope::analysis {

const std::array<Bound, kStepClasses> kBounds = {{
    {StepClass::kInput, 0.10, "input-bound",
     "prefetch, more loader workers, a parallel map, a cache, or a cheaper decode",
     "a loader that keeps up costs a hundredth of a step; from a tenth on it is worth the work"},
    {StepClass::kWaiting, 0.20, "bound by waiting",
     "capture all ranks at once: whom it waits for is not in this run",
     "ranks of equal speed still wait some percent for each other"},
    {StepClass::kTransfer, 0.25, "communication-bound",
     "larger buckets, overlap with the backward pass, less precision on the wire, a faster link",
     "communication that overlaps computation leaves less than this"},
    {StepClass::kDeviceCompute, 0.60, "device-bound",
     "the device is well used: lower precision, fused kernels, or more devices",
     "above it other classes can win less than a factor of two and a half"},
    {StepClass::kDeviceCopy, 0.15, "copy-bound",
     "pinned memory, asynchronous copies on a stream of their own, fewer copies",
     "copies that overlap kernels do not count here at all"},
    {StepClass::kCompilation, 0.05, "compile-bound",
     "stable shapes (pad or bucket), no Python values as arguments of compiled functions",
     "a program compiles once: in the middle of a run anything is too much"},
    {StepClass::kGarbageCollection, 0.05, "bound by garbage collection",
     "gc.freeze() after the start, a higher gc.set_threshold, fewer cycles",
     "collections that do no harm take a hundredth"},
    {StepClass::kGil, 0.10, "bound by the GIL",
     "processes instead of threads for Python work beside the training thread",
     "as much as a tenth is felt"},
    {StepClass::kNotRunning, 0.10, "short of CPU",
     "the thread was runnable and had no CPU: fewer threads or processes, more CPUs, no cgroup "
     "throttling",
     "an idle machine gives a runnable thread a CPU within microseconds"},
    {StepClass::kHost, 0.50, "host-bound",
     "fewer and larger operations, compiled functions, less Python in the loop",
     "on a machine without devices all computation is host work"},
    {StepClass::kLaunch, 0.20, "launch-bound", "CUDA graphs, fused operators, a larger batch",
     "a device that is fed waits for launches less than this"},
    {StepClass::kUnexplained, 0.50, "unexplained",
     "nothing recorded covers it: add scopes, or capture with a higher --host_tracer_level or "
     "--python_tracer_level=1",
     "half of the time without a name is no answer"},
}};

namespace {

// By what compiles: part of its name.
struct NamedAdvice {
  StepClass step_class;
  std::string_view part;
  std::string_view advice;
};

constexpr std::string_view kOfJax =
    "recompilation: jax.log_compiles tells why; pad or bucket shapes, static arguments only for "
    "values that rarely change, no jax.jit of a new function in the loop";
constexpr std::string_view kOfTorch =
    "recompilation: TORCH_LOGS=recompiles tells why; dynamic=True or mark_dynamic for sizes that "
    "change, no torch.compile of a new function in the loop";

constexpr NamedAdvice kNamedAdvice[] = {
    {StepClass::kCompilation, "tf.function",
     "retracing: tensors instead of Python values as arguments, an input_signature, "
     "reduce_retracing=True, no tf.function of a new function in the loop"},
    {StepClass::kCompilation, "torch.compile", kOfTorch},
    {StepClass::kCompilation, "_compile.compile_inner", kOfTorch},
    {StepClass::kCompilation, "entire_frame_compile", kOfTorch},
    {StepClass::kCompilation, "PjitFunction", kOfJax},
    {StepClass::kCompilation, "backend_compile", kOfJax},
    {StepClass::kCompilation, "jaxpr", kOfJax},
    {StepClass::kCompilation, "lower_sharding_computation", kOfJax},
};

}  // namespace

std::string_view AdviceFor(StepClass step_class, std::string_view name) {
  for (const NamedAdvice& named : kNamedAdvice) {
    if (named.step_class == step_class && name.find(named.part) != std::string_view::npos) {
      return named.advice;
    }
  }
  return BoundOf(step_class).advice;
}

std::optional<StepClass> ChooseBound(
    const std::array<std::optional<double>, kStepClasses>& shares) {
  std::optional<StepClass> chosen;
  double most = 1;
  for (const Bound& bound : kBounds) {
    const std::optional<double>& share = shares[Index(bound.step_class)];
    if (!share.has_value() || *share < bound.threshold) continue;
    const double factor = *share / bound.threshold;
    if (chosen.has_value() && factor <= most) continue;
    most = factor;
    chosen = bound.step_class;
  }
  return chosen;
}

}  // namespace jobscope::analysis
