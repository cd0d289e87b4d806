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
  const std::string before(kMaxNameBytes - 4, 'x');
  EXPECT_EQ(KernelName(before + "\u00e9 and more"), before + "...") << "cut between characters";
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

TEST(KernelNamesTest, KernelsBeyondTheBoundShareAName) {
  KernelNames names;
  const uint32_t first = names.Find("first");
  const std::string giant(60'000, 'g');
  for (int i = 0; i < 1000; ++i) names.Find((std::to_string(i) + giant).c_str());
  const size_t size = names.size();
  EXPECT_LT(size, 600u);
  const uint64_t unnamed = names.unnamed();
  EXPECT_GT(unnamed, 400u);
  const uint32_t other = names.Find("one more");
  EXPECT_EQ(names.Name(other), "other kernels");
  EXPECT_EQ(names.LaunchName(other), "Launch other kernels");
  EXPECT_EQ(names.Find("yet another"), other);
  EXPECT_EQ(names.unnamed(), unnamed + 2);
  EXPECT_EQ(names.Find("first"), first);
  EXPECT_EQ(names.size(), size);
}

}  // namespace
}  // namespace jobscope::cuda
