// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/event_kinds.h"

#include <cctype>
#include <cstddef>
#include <initializer_list>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "common/xspace/wire/absl_view.h"

namespace jobscope::analysis {
namespace {

using Names = std::initializer_list<std::string_view>;

bool StartsWith(std::string_view text, Names prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (text.substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

bool StartsWithIgnoreCase(std::string_view text, Names prefixes) {
  for (const std::string_view prefix : prefixes) {
    if (absl::StartsWithIgnoreCase(xspace::AbslView(text), xspace::AbslView(prefix))) return true;
  }
  return false;
}

bool Contains(std::string_view text, Names parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) != std::string_view::npos) return true;
  }
  return false;
}

bool IsOneOf(std::string_view text, Names names) {
  for (const std::string_view name : names) {
    if (text == name) return true;
  }
  return false;
}

// Returns whether this is a CUDA call such as cuLaunchKernel or cudaMemcpyAsync, or a launch as
// jobscope and XProf name it.
bool IsDriverCall(std::string_view name) {
  if (StartsWith(name, {"Launch ", "hipLaunch", "hipMemcpy"})) return true;
  if (StartsWith(name, {"cuda"})) return name.size() > 4 && std::isupper(name[4]) != 0;
  return StartsWith(name, {"cu"}) && name.size() > 2 && std::isupper(name[2]) != 0;
}

}  // namespace

EventKind HostEventKind(std::string_view name) {
  if (StartsWithIgnoreCase(name, {"IteratorGetNext", "enumerate(DataLoader)#"}) ||
      StartsWith(name, {"InfeedEnqueue", "Iterator::GetNext"})) {
    return EventKind::kInput;
  }
  if (StartsWith(name, {"gloo:", "nccl:", "mpi:", "ucc:", "xccl:"})) {
    return IsEnqueue(name) ? EventKind::kScope : EventKind::kCollective;
  }
  if (name == "MemoryAllocation") return EventKind::kAllocation;
  if (name == "MemoryDeallocation") return EventKind::kDeallocation;
  if (name == "gc") return EventKind::kGarbageCollection;
  if (IsOneOf(name, {"GIL", "take_gil"})) return EventKind::kGil;
  // The names of PyTorch, JAX, TensorFlow and XLA; including tracing and lowering.
  if (StartsWith(name, {"XlaCompile", "BackendCompile", "backend_compile", "XlaCompileBackend",
                        "_compile.compile_inner", "entire_frame_compile", "PjRtClient::Compile",
                        "CpuCompiler::", "GpuCompiler::", "compile_or_get_cached", "trace_to_jaxpr",
                        "lower_jaxpr_to_module", "lower_sharding_computation",
                        "tf.function-graph_building"}) ||
      Contains(name, {"Client::CompileAndLoad", "Client::Compile"})) {
    return EventKind::kCompilation;
  }
  if (IsDriverCall(name)) return EventKind::kLaunch;
  return EventKind::kScope;
}

EventKind DeviceEventKind(std::string_view name) {
  if (StartsWithIgnoreCase(name, {"nccl", "void nccl", "rccl"}) ||
      StartsWith(name, {"all-reduce", "all-gather", "reduce-scatter", "all-to-all",
                        "collective-permute", "collective-broadcast"})) {
    return EventKind::kDeviceCollective;
  }
  if (StartsWithIgnoreCase(name, {"memcpy", "memset"})) return EventKind::kCopy;
  return EventKind::kKernel;
}

StepClass ClassOf(EventKind kind) {
  switch (kind) {
    case EventKind::kInput:
      return StepClass::kInput;
    case EventKind::kCollective:
    case EventKind::kDeviceCollective:
      return StepClass::kTransfer;
    case EventKind::kGarbageCollection:
      return StepClass::kGarbageCollection;
    case EventKind::kCompilation:
      return StepClass::kCompilation;
    case EventKind::kGil:
      return StepClass::kGil;
    case EventKind::kLaunch:
      return StepClass::kLaunch;
    case EventKind::kKernel:
      return StepClass::kDeviceCompute;
    case EventKind::kCopy:
      return StepClass::kDeviceCopy;
    case EventKind::kScope:
    case EventKind::kAllocation:
    case EventKind::kDeallocation:
      break;
  }
  return StepClass::kHost;
}

bool IsEnqueue(std::string_view name) { return Contains(name, {"(enqueue)"}); }

bool LaunchesCollective(std::string_view name) {
  constexpr std::string_view kLaunch = "Launch ";
  return StartsWith(name, {kLaunch}) &&
         DeviceEventKind(name.substr(kLaunch.size())) == EventKind::kDeviceCollective;
}

bool IsWait(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower(xspace::AbslView(name));
  return Contains(lower, {"wait", "barrier", "synchronize"});
}

bool IsOperator(std::string_view name) { return Contains(name, {"::"}); }

bool IsDevicePlane(std::string_view plane) {
  return IsTpuPlane(plane) || StartsWith(plane, {"/device:GPU:", "/device:CUSTOM:GPU:"});
}

bool IsTpuPlane(std::string_view plane) { return StartsWith(plane, {"/device:TPU:"}); }

bool IsDerivedLine(std::string_view plane, std::string_view line) {
  if (IsTpuPlane(plane)) return line != "XLA Ops";
  return IsOneOf(line, {"Steps", "XLA Modules", "XLA Ops", "Async XLA Ops", "Framework Ops",
                        "Framework Name Scope", "Source code", "Launch Stats", "XLA TraceMe"});
}

}  // namespace jobscope::analysis
