// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/libraries/other_profilers.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/clock/monotonic.h"
#include "common/process/loaded_libraries.h"
#include "common/process/own_environment.h"

namespace jobscope::cuda {
namespace {

// Prefixes of the libraries that NVIDIA's tools inject into the processes they watch.
constexpr std::array<std::string_view, 6> kTools = {
    "libToolsInjection",       "libcuda-injection",  "libInterceptorInjection",
    "libsanitizer-collection", "libcupti_injection", "libcudadebugger"};
constexpr std::string_view kPyTorch = "libtorch_cpu.so";
constexpr std::string_view kPyTorchCuda = "libtorch_cuda.so";
// Frameworks whose own tracers subscribe.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kFrameworks = {
    {{"xla_cuda_plugin.so", "JAX"}, {"libtensorflow_framework.so", "TensorFlow"}}};
// bool torch::autograd::profiler::isProfilerEnabledInMainThread()
constexpr const char* kIsRecording = "_ZN5torch8autograd8profiler29isProfilerEnabledInMainThreadEv";

bool BeginsWith(std::string_view text, std::string_view begin) {
  return text.substr(0, begin.size()) == begin;
}

using IsRecording = bool (*)();

std::atomic<IsRecording> known_is_recording{nullptr};

// Returns null if this PyTorch cannot be queried.
IsRecording FindIsRecording(const std::string& pytorch) {
  const IsRecording known = known_is_recording.load();
  if (known != nullptr) return known;
  void* const library = dlopen(pytorch.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* const found = dlsym(library, kIsRecording);
  dlclose(library);  // it stays loaded: Python never unloads it
  IsRecording is_recording = nullptr;
  std::memcpy(&is_recording, &found, sizeof(found));
  known_is_recording.store(is_recording);
  return is_recording;
}

}  // namespace

std::string FindStragglerDetector() {
  // The second is the name of older versions.
  for (const std::string_view prefix : {"nvrx_cupti_module", "cupti_module"}) {
    const std::string path = FindLoadedLibrary(prefix);
    if (!path.empty()) return std::string(FileNameOf(path));
  }
  return {};
}

bool PyTorchHasCuda() { return !FindLoadedLibrary(kPyTorchCuda).empty(); }

std::string FindXla() {
  for (const auto& [library, named] : kFrameworks) {
    if (FindLoadedLibrary(library).empty()) continue;
    if (named == "TensorFlow" && PyTorchHasCuda()) continue;
    return std::string(named);
  }
  return {};
}

OtherProfiler FindOtherProfiler(absl::Duration timeout) {
  const std::vector<std::string> mapped = LoadedLibraries();
  const std::string named = OwnVariable("CUDA_INJECTION64_PATH").value_or("");
  const std::string_view injected = FileNameOf(named);
  const std::string* pytorch = nullptr;
  bool has_cuda = false;
  std::string_view framework;
  for (const std::string& path : mapped) {
    const std::string_view name = FileNameOf(path);
    const bool is_tool =
        std::any_of(kTools.begin(), kTools.end(),
                    [name](std::string_view tool) { return BeginsWith(name, tool); }) ||
        (name == injected && !BeginsWith(name, "libjobscope"));
    if (is_tool) return {OtherProfiler::kInjected, std::string(name)};
    if (BeginsWith(name, kPyTorch)) pytorch = &path;
    has_cuda = has_cuda || BeginsWith(name, kPyTorchCuda);
    for (const auto& [library, named] : kFrameworks) {
      if (BeginsWith(name, library)) framework = named;
    }
  }
  if (pytorch == nullptr || !has_cuda) return {};
  const IsRecording is_recording = FindIsRecording(*pytorch);
  const absl::Time deadline = SteadyNow() + timeout;
  while (is_recording != nullptr && is_recording()) {
    if (SteadyNow() >= deadline) return {OtherProfiler::kKinetoRecords, ""};
    absl::SleepFor(absl::Milliseconds(5));
  }
  if (!framework.empty()) {
    return {OtherProfiler::kUnknown, std::string("PyTorch or ").append(framework)};
  }
  return {OtherProfiler::kKineto, ""};
}

bool TorchProfilerRecords() {
  if (!PyTorchHasCuda()) return false;
  const std::string pytorch = FindLoadedLibrary(kPyTorch);
  const IsRecording is_recording = pytorch.empty() ? nullptr : FindIsRecording(pytorch);
  return is_recording != nullptr && is_recording();
}

bool TorchProfilerIsKnownToRecord() {
  static LibraryPresence pytorch_with_cuda(kPyTorchCuda);
  const IsRecording is_recording = known_is_recording.load();
  return is_recording != nullptr && pytorch_with_cuda.IsKnownLoaded() && is_recording();
}

}  // namespace jobscope::cuda
