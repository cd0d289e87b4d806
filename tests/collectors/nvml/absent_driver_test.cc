// SPDX-License-Identifier: Apache-2.0
//
// Tests the cost of the GPU parts of a capture on a machine without a driver, by the libraries that
// are opened. Prints the time, which no check depends on.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "collectors/cuda/cuda_collector.h"
#include "collectors/nvml/nvml_collector.h"

namespace {

struct Opened {
  std::string name;
  int flags;
};
std::mutex& Mutex() {
  static std::mutex mutex;
  return mutex;
}
std::vector<Opened>& AllOpened() {
  static std::vector<Opened> opened;
  return opened;
}
std::vector<Opened> TakeOpened() {
  const std::lock_guard<std::mutex> lock(Mutex());
  return std::exchange(AllOpened(), {});
}

}  // namespace

// Stands before the library's: every dlopen of this program. The C library's names of parameters
// are reserved ones. NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name)
extern "C" void* dlopen(const char* name, int flags) {
  using Open = void* (*)(const char*, int);
  static const Open open = [] {
    void* const found = dlsym(RTLD_NEXT, "dlopen");
    Open function;
    std::memcpy(&function, &found, sizeof(found));
    return function;
  }();
  {
    const std::lock_guard<std::mutex> lock(Mutex());
    AllOpened().push_back({name == nullptr ? "" : name, flags});
  }
  return open(name, flags);
}

namespace jobscope {
namespace {

using ::testing::HasSubstr;

constexpr const char* kAbsent = "libjobscope-there-is-no-such-driver.so.1";

TEST(AbsentDriverTest, IsLookedForOnceAndRemembered) {
  NvmlCollectorOptions options;
  options.monitor.library = kAbsent;
  options.arm_waits = absl::Seconds(60);  // as long as a busy machine takes
  NvmlCollector nvml(/*uses_tsc=*/false, options);
  CudaCollector cuda(/*uses_tsc=*/false, CudaCollectorOptions());
  (void)TakeOpened();
  (void)nvml.Describe();
  (void)cuda.Describe();
  EXPECT_EQ(TakeOpened().size(), 0u);

  int nvml_loads = 0;
  std::vector<double> arm_ms;
  for (int i = 0; i < 20; ++i) {
    const absl::Time begin = absl::Now();
    EXPECT_TRUE(cuda.Arm(ArmRequest()).ok());
    EXPECT_TRUE(nvml.Arm(ArmRequest()).ok());
    arm_ms.push_back(absl::ToDoubleMilliseconds(absl::Now() - begin));
    EXPECT_EQ(cuda.Report().state, CollectorState::kOff);
    const CollectorReport report = nvml.Report();
    EXPECT_EQ(report.state, CollectorState::kOff);
    EXPECT_THAT(report.reason, HasSubstr("no NVIDIA driver"));
    (void)nvml.RefreshGpus(absl::ZeroDuration(), [] {});
    for (const Opened& opened : TakeOpened()) {
      // libcuda is asked for only where it is loaded already; libcupti not at all.
      if (opened.name == "libcuda.so.1") {
        EXPECT_NE(opened.flags & RTLD_NOLOAD, 0);
      } else {
        EXPECT_EQ(opened.name, kAbsent);
        ++nvml_loads;
      }
    }
  }
  EXPECT_EQ(nvml_loads, 1);
  std::printf("arm of both GPU parts: the first %.3f ms, of the other 19 the longest %.3f ms\n",
              arm_ms[0], *std::max_element(arm_ms.begin() + 1, arm_ms.end()));
}

}  // namespace
}  // namespace jobscope
