// SPDX-License-Identifier: Apache-2.0
//
// Tests which tracer records the GPUs of a session.
#include "collectors/framework/gpu_tracer.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/options/device_tracer.h"
#include "common/options/framework_choice.h"

namespace jobscope::framework {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr GpuFrameworks kNothing = {};
constexpr GpuFrameworks kJax = {true, false, false};
constexpr GpuFrameworks kTensorflow = {false, true, false};
constexpr GpuFrameworks kTorch = {false, false, true};
constexpr GpuFrameworks kJaxAndTorch = {true, false, true};

std::string Why(DeviceTracer tracer, const GpuFrameworks& loaded, const char* frameworks = "auto") {
  return WhyFrameworkTraces(tracer, *FrameworkChoice::Parse(frameworks), loaded);
}

TEST(GpuTracerTest, AutoLeavesGpusToWhoKnowsTheirOperations) {
  EXPECT_THAT(Why(DeviceTracer::kAuto, kJax), StartsWith("JAX traces its GPUs itself"));
  EXPECT_THAT(Why(DeviceTracer::kAuto, kTensorflow), StartsWith("TensorFlow traces"));
  EXPECT_THAT(Why(DeviceTracer::kAuto, kTorch), IsEmpty());
  EXPECT_THAT(Why(DeviceTracer::kAuto, kNothing), IsEmpty());
  // Whose kernels would be missing.
  EXPECT_THAT(Why(DeviceTracer::kAuto, kJaxAndTorch), IsEmpty());
  // Whose events the session does not take, that cannot trace for it.
  EXPECT_THAT(Why(DeviceTracer::kAuto, kJax, "none"), IsEmpty());
  EXPECT_THAT(Why(DeviceTracer::kAuto, kJax, "tensorflow"), IsEmpty());
  EXPECT_THAT(Why(DeviceTracer::kAuto, kJax, "jax"), StartsWith("JAX"));
}

TEST(GpuTracerTest, AWordIsObeyed) {
  for (const GpuFrameworks& loaded : {kNothing, kJax, kTensorflow, kTorch, kJaxAndTorch}) {
    EXPECT_THAT(Why(DeviceTracer::kJobscope, loaded), IsEmpty());
  }
  EXPECT_THAT(Why(DeviceTracer::kFramework, kJaxAndTorch), StartsWith("JAX"));
  EXPECT_THAT(Why(DeviceTracer::kFramework, kTorch),
              HasSubstr("neither JAX nor TensorFlow takes part"));
  EXPECT_THAT(Why(DeviceTracer::kFramework, kJax, "none"), HasSubstr("neither JAX"));
}

TEST(GpuTracerTest, FrameworksAreFoundByTheirLibraries) {
  EXPECT_FALSE(FindGpuFrameworks().jax);
  void* const plugin = dlopen(FAKE_XLA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(plugin, nullptr) << dlerror();
  EXPECT_TRUE(FindGpuFrameworks().jax);
  EXPECT_FALSE(FindGpuFrameworks().tensorflow);
  EXPECT_FALSE(FindGpuFrameworks().torch);
}

TEST(DeviceTracerTest, Words) {
  for (const char* word : {"auto", "jobscope", "framework"}) {
    EXPECT_EQ(DeviceTracerText(*ParseDeviceTracer(word)), word);
  }
  EXPECT_EQ(*ParseDeviceTracer(""), DeviceTracer::kAuto);
  EXPECT_THAT(std::string(ParseDeviceTracer("xla\n").status().message()),
              HasSubstr("\"xla?\" is none of auto, jobscope, framework"));
  EXPECT_THAT(std::string(ParseDeviceTracer(std::string(101, 'x')).status().message()),
              HasSubstr("x...\" is none of"));
}

}  // namespace
}  // namespace jobscope::framework
