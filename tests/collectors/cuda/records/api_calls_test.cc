// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/api_calls.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace jobscope::cuda {
namespace {

TEST(ApiCallsTest, LoseTheirVersion) {
  EXPECT_EQ(ApiName("cudaLaunchKernel_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(ApiName("cudaLaunchKernel_ptsz_v7000"), "cudaLaunchKernel");
  EXPECT_EQ(ApiName("cuMemAlloc_v2"), "cuMemAlloc_v2");
  EXPECT_EQ(ApiName("cuLaunchKernel_ptsz"), "cuLaunchKernel");
  EXPECT_TRUE(IsLaunch("cudaLaunchKernelExC"));
  EXPECT_TRUE(IsLaunch("cuGraphLaunch"));
  EXPECT_FALSE(IsLaunch("cudaMemcpyAsync"));
  for (const char* const of_the_host :
       {"cudaLaunchHostFunc_v10000", "cudaLaunchHostFunc_v2_ptsz_v13020", "cuLaunchHostFunc",
        "cuLaunchHostFunc_v2_ptsz"}) {
    EXPECT_FALSE(IsLaunch(ApiName(of_the_host))) << of_the_host;
  }
}

TEST(ApiCallsTest, ThatNeverCauseWorkAreKnown) {
  for (const char* const name :
       {"cudaEventQuery", "cudaStreamQuery", "cuEventQuery", "cudaEventRecord", "cudaGetLastError",
        "cudaPeekAtLastError", "cudaDeviceSynchronize", "cuStreamWaitEvent", "cuCtxSetCurrent"}) {
    EXPECT_TRUE(IsWithoutWork(name)) << name;
  }
  for (const char* const name :
       {"cudaLaunchKernel", "cuLaunchKernelEx", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemset",
        "cuMemcpyHtoD_v2", "cudaMemPrefetchAsync", "cudaStreamBeginCapture", "cudaStreamEndCapture",
        "cudaFree", "CUDA runtime call 17"}) {
    EXPECT_FALSE(IsWithoutWork(name)) << name;
  }
}

// Damaged records have any number.
TEST(ApiCallsTest, AreBounded) {
  const CuptiApi api{};
  ApiCalls calls(&api);
  EXPECT_EQ(calls.Of(false, 1).name, "CUDA runtime call 1");
  for (uint32_t id = 1; id <= ApiCalls::kMaxCalls; ++id) (void)calls.Of(false, id);
  for (const uint32_t id : {1'000'000u, 2'000'000u}) {
    EXPECT_EQ(calls.Of(true, id).name, "other CUDA calls");
    EXPECT_FALSE(calls.Of(true, id).launches);
  }
  EXPECT_EQ(calls.Of(false, 1).name, "CUDA runtime call 1");
  EXPECT_EQ(calls.Of(false, ApiCalls::kMaxCalls).name, "CUDA runtime call 8192");
}

}  // namespace
}  // namespace jobscope::cuda
