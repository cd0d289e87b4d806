// SPDX-License-Identifier: Apache-2.0
//
// Runs the collector over a library that has PyTorch's symbols and rules.
#ifndef TESTS_COLLECTORS_TORCH_FAKE_TORCH_H_
#define TESTS_COLLECTORS_TORCH_FAKE_TORCH_H_

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "collectors/inferred/inferred_steps.h"
#include "collectors/torch/torch_collector.h"
#include "collectors/torch/torch_library.h"
#include "common/process/fork_pause.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope {

// Files where PyPI's wheel has them: torch/version.py and torch/lib/libtorch_cpu.so. The library
// stays loaded.
class FakeTorch {
 public:
  static FakeTorch& Get() {
    static auto* const fake = new FakeTorch;
    return *fake;
  }

  void SetVersion(const std::string& version) const {
    std::ofstream(folder_ / "version.py")
        << "from typing import Optional\n__version__ = '" << version << "'\ndebug = False\n";
  }

  void* (*begin)(size_t scope, const char* name, bool is_async) = nullptr;
  void (*end)(void* operation) = nullptr;
  size_t (*callbacks)() = nullptr;
  // How long adding and removing a callback takes, with PyTorch's lock.
  void (*set_change_us)(int us) = nullptr;
  void (*set_inputs)(const framework::torch::Sizes* sizes) = nullptr;
  void (*set_input_type)(const char* type) = nullptr;
  int (*flying_exceptions)() = nullptr;

 private:
  FakeTorch() {
    char name[] = "/tmp/jobscope-fake-torch-XXXXXX";
    folder_ = std::filesystem::path(mkdtemp(name)) / "torch";
    std::filesystem::create_directories(folder_ / "lib");
    const auto library = folder_ / "lib" / "libtorch_cpu.so";
    std::filesystem::copy_file(FAKE_TORCH, library);
    void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return;
    begin = reinterpret_cast<decltype(begin)>(dlsym(handle, "fake_torch_begin"));
    end = reinterpret_cast<decltype(end)>(dlsym(handle, "fake_torch_end"));
    callbacks = reinterpret_cast<decltype(callbacks)>(dlsym(handle, "fake_torch_callbacks"));
    set_change_us =
        reinterpret_cast<decltype(set_change_us)>(dlsym(handle, "fake_torch_set_change_us"));
    set_inputs = reinterpret_cast<decltype(set_inputs)>(dlsym(handle, "fake_torch_set_inputs"));
    set_input_type =
        reinterpret_cast<decltype(set_input_type)>(dlsym(handle, "fake_torch_set_input_type"));
    flying_exceptions = reinterpret_cast<decltype(flying_exceptions)>(
        dlsym(handle, "fake_torch_flying_exceptions"));
    std::atexit([] { std::filesystem::remove_all(Get().folder_.parent_path()); });
  }

  std::filesystem::path folder_;
};

class TorchCollectorTest : public testing::Test {
 protected:
  TorchCollectorTest() {
    fake_.SetVersion("2.4.1+cpu");
    framework::RecordInferredSteps(jobscope_trace_writer());
  }
  ~TorchCollectorTest() override { EXPECT_TRUE(collector_.Stop(UINT64_MAX).ok()); }

  CollectorReport Arm(int host_level = 2, const char* frameworks = "auto", bool shapes = false) {
    ArmRequest request;
    request.recording.record_shapes = shapes;
    request.recording.host_tracer_level = host_level;
    request.recording.frameworks = *FrameworkChoice::Parse(frameworks);
    EXPECT_TRUE(collector_.Arm(request).ok());
    return collector_.Describe();
  }

  void Run(size_t scope, const std::string& name) const {
    fake_.end(fake_.begin(scope, name.c_str(), false));
  }

  FakeTorch& fake_ = FakeTorch::Get();
  TorchCollector collector_{jobscope_trace_writer(), [](const std::function<void()>&) {}};
};

}  // namespace jobscope

#endif  // TESTS_COLLECTORS_TORCH_FAKE_TORCH_H_
