// SPDX-License-Identifier: Apache-2.0
#include "analysis/blame/advice.h"

#include "absl/strings/str_cat.h"

namespace jobscope::analysis {

const std::array<Advice, kStepClasses> kAdvice = {{
    {StepClass::kInput,
     "prefetch, more loader workers, a parallel map, a cache, or a cheaper decode",
     "compare its storage and its share of the data with the others'; prefetch, more loader "
     "workers, a cache, or a cheaper decode"},
    {StepClass::kWaiting,
     "capture all ranks at once, with their steps: whom it waits for may not be in this run",
     "capture all ranks at once, with their steps: whom it waits for may not be in this run"},
    {StepClass::kTransfer,
     "larger buckets, overlap with the backward pass, less precision on the wire, a faster link",
     "compare its link with the others'"},
    {StepClass::kDeviceCompute,
     "the device is well used: lower precision, fused kernels, or more devices",
     "compare its device and its batches with the others': nvidia-smi -q shows clocks, "
     "temperature, errors and other processes; capture with the collector nvml"},
    {StepClass::kDeviceCopy,
     "pinned memory, asynchronous copies on a stream of their own, fewer copies",
     "compare the link to its device and its NUMA node with the others'; pinned memory, "
     "asynchronous copies, fewer copies"},
    {StepClass::kCompilation,
     "stable shapes (pad or bucket), no Python values as arguments of compiled functions",
     "its shapes differ from the others': pad or bucket; no Python values as arguments of compiled "
     "functions"},
    {StepClass::kGarbageCollection,
     "gc.freeze() after the start, a higher gc.set_threshold, fewer cycles",
     "collect on all ranks in the same steps (gc.disable(), then gc.collect() every n steps); or "
     "gc.freeze() after the start, fewer cycles"},
    {StepClass::kGil, "processes instead of threads for Python work beside the training thread",
     "find which of its threads does Python work that the others' do not; processes instead of "
     "threads"},
    {StepClass::kNotRunning,
     "the thread was runnable and had no CPU: fewer threads or processes, more CPUs, no cgroup "
     "throttling",
     "the thread was runnable and had no CPU: find what else runs on its machine; fewer threads "
     "or processes, more CPUs, no cgroup throttling"},
    {StepClass::kHost, "fewer and larger operations, compiled functions, less Python in the loop",
     "find what it does beyond the others: logging or checkpoints on one rank, uneven batches, a "
     "slower CPU; then fewer and larger operations, less Python in the loop"},
    {StepClass::kLaunch, "CUDA graphs, fused operators, a larger batch",
     "compare its CPU with the others'; CUDA graphs, fused operators, a larger batch"},
    {StepClass::kUnexplained,
     "nothing recorded covers it: add scopes, or capture with a higher --host_tracer_level or "
     "--python_tracer_level=1",
     "nothing recorded covers it: add scopes, or capture with a higher --host_tracer_level or "
     "--python_tracer_level=1"},
}};

namespace {

// Advice about a compiler, which a part of the name identifies.
struct NamedAdvice {
  StepClass step_class;
  std::string_view part;
  std::string_view advice;
};

constexpr std::string_view kOfJax =
    "recompilation: jax.log_compiles shows why; pad or bucket shapes, static arguments only for "
    "values that rarely change, no jax.jit of a new function in the loop";
constexpr std::string_view kOfTorch =
    "recompilation: TORCH_LOGS=recompiles shows why; dynamic=True or mark_dynamic for sizes that "
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

std::string_view AdviceFor(StepClass step_class, std::string_view name, bool straggler) {
  for (const NamedAdvice& named : kNamedAdvice) {
    if (named.step_class == step_class && name.find(named.part) != std::string_view::npos) {
      return named.advice;
    }
  }
  const Advice& advice = kAdvice[Index(step_class)];
  return straggler ? advice.straggler : advice.bound;
}

std::string_view AdviceForLimit(Limit limit) {
  switch (limit) {
    case Limit::kHeat:
      return "cool the GPU (airflow, fans, the room), or replace the node";
    case Limit::kPower:
      return "raise the power limit of the GPU (nvidia-smi -pl), or look at the power supply";
    case Limit::kClock:
      return "find what lowers the clock of the GPU: nvidia-smi -q -d CLOCK,PERFORMANCE; locked "
             "clocks are reset by nvidia-smi -rgc";
    case Limit::kQuota:
      return "raise the CPU quota of the cgroup (cpu.max), or start fewer threads in it";
  }
  return {};
}

std::string AdviceForLatest(const std::string& who, const std::string& when) {
  return absl::StrCat("most of it is caused by ", who, ", ", when,
                      "; a longer capture shows whether that is chance");
}

}  // namespace jobscope::analysis
