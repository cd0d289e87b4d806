// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/kernel_names.h"

#include <gtest/gtest.h>

#include <string>

namespace jobscope::cuda {
namespace {

TEST(KernelNamesTest, AreDemangledWithoutTheirReturnType) {
  EXPECT_EQ(KernelName("_Z6vecAddPKfS0_Pfi"), "vecAdd(float const*, float const*, float*, int)");
  EXPECT_EQ(KernelName("_Z4fillIfEvPT_i"), "fill<float>(float*, int)");
  EXPECT_EQ(KernelName("ncclDevKernel_AllReduce"), "ncclDevKernel_AllReduce");
  EXPECT_EQ(KernelName("_Znonsense"), "_Znonsense");
  EXPECT_EQ(KernelName(""), "kernel");
  EXPECT_EQ(KernelName(std::string(100'000, 'x')).size(), kMaxNameBytes);
}

TEST(KernelNamesTest, LaunchesAreCalledAfterTheShortName) {
  KernelNames names;
  const uint32_t fill = names.Find("_Z4fillIfEvPT_i");
  EXPECT_EQ(names.LaunchName(fill), "Launch fill");
  EXPECT_EQ(names.Find("_Z4fillIfEvPT_i"), fill);
  EXPECT_EQ(names.LaunchName(names.Find("_ZN12_GLOBAL__N_14copyEPf")), "Launch anonymous::copy");
  EXPECT_EQ(names.Name(names.Find(nullptr)), "kernel");
  const std::string giant(200'000, 'g');
  EXPECT_EQ(names.Name(names.Find(giant.c_str())).size(), kMaxNameBytes);
}

TEST(KernelNamesTest, CallsLoseTheirVersion) {
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

TEST(KernelNamesTest, CallsThatNeverCauseWorkAreKnown) {
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

}  // namespace
}  // namespace jobscope::cuda
