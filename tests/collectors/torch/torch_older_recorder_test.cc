// SPDX-License-Identifier: Apache-2.0
//
// A recorder of an older library, which is in the process first and cannot tell whether the calling
// thread began a scope. The first recorder stays, so this is a program of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>

#include "collectors/torch/torch_collector.h"
#include "collectors/torch/torch_library.h"
#include "tests/collectors/host/recorder/recorded.h"
#include "tests/collectors/torch/fake_torch.h"

namespace jobscope {
namespace {

namespace torch = framework::torch;

using ::testing::SizeIs;

TEST_F(TorchCollectorTest, AnOlderRecorderRecordsOperators) {
  static struct jobscope_trace_writer_table older = *jobscope_trace_writer();
  older.size = offsetof(struct jobscope_trace_writer_table, end_own);
  older.end_own = nullptr;
  TorchCollector collector(&older, [](const std::function<void()>&) {});
  ArmRequest request;
  request.recording.host_tracer_level = 2;
  ASSERT_TRUE(collector.Arm(request).ok());
  const auto events = recorder_test::Record(recorder_test::kAllBits,
                                            [this] { Run(torch::kScopeFunction, "aten::addmm"); });
  EXPECT_TRUE(collector.Stop(UINT64_MAX).ok());
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(events[0].name, "aten::addmm");
}

}  // namespace
}  // namespace jobscope
