// SPDX-License-Identifier: Apache-2.0
//
// The collector in a process whose PyTorch takes no callbacks.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "collectors/torch/torch_collector.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(TorchWithoutCallbacks, IsOffWithTheReasonAndTheRemedy) {
  const std::filesystem::path library = FAKE_TORCH;
  std::ofstream(library.parent_path().parent_path() / "version.py") << "__version__ = '2.4.1'\n";
  ASSERT_NE(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  int ran_aside = 0;
  TorchCollector collector(jobscope_trace_writer(),
                           [&](const std::function<void()>&) { ++ran_aside; });
  ArmRequest request;
  request.recording.host_tracer_level = 2;
  ASSERT_TRUE(collector.Arm(request).ok());
  const auto explained =
      AllOf(HasSubstr("PyTorch 2.4.1"), HasSubstr(library.string()),
            HasSubstr("takes no callbacks: it lacks at::addGlobalCallback"),
            HasSubstr("Use a build of PyTorch 1.13 to 2.15 to record its operators"));
  EXPECT_EQ(collector.Describe().state, CollectorState::kOff);
  EXPECT_THAT(collector.Describe().reason, explained);
  EXPECT_TRUE(collector.Start({}).ok());
  EXPECT_EQ(collector.Drain(), absl::InfiniteDuration());
  EXPECT_TRUE(collector.Stop(UINT64_MAX).ok());
  EXPECT_EQ(collector.Report().state, CollectorState::kOff);
  EXPECT_THAT(collector.Report().reason, explained);
  EXPECT_EQ(collector.Report().attempted, 0u);
  EXPECT_EQ(ran_aside, 0);  // nothing looks for Python on its behalf
}

}  // namespace
}  // namespace jobscope
