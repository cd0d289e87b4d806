// SPDX-License-Identifier: Apache-2.0
//
// Tests what is recorded of PyTorch's collectives besides their begin and end.
#include "collectors/torch/torch_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "collectors/torch/torch_callbacks.h"
#include "collectors/torch/torch_library.h"
#include "tests/collectors/host/recorder/recorded.h"
#include "tests/collectors/torch/fake_torch.h"

namespace jobscope {
namespace {

namespace torch = framework::torch;

using recorder_test::Event;
using recorder_test::kAllBits;
using recorder_test::Record;
using recorder_test::Value;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class TorchCollectivesTest : public TorchCollectorTest {
 protected:
  // The begin of a collective's event.
  Event Collective(const char* name, const torch::Sizes& sizes) {
    fake_.set_inputs(&sizes);
    const auto events = Record(
        kAllBits, [&] { fake_.end(fake_.begin(torch::kScopeUser, name, /*is_async=*/true)); });
    fake_.set_inputs(&none_);
    EXPECT_THAT(events, SizeIs(2));
    return events.empty() ? Event() : events.front();
  }

 private:
  const torch::Sizes none_{};
};

// What is known of it, by key, the id left out.
std::vector<std::pair<std::string, std::string>> Stats(const Event& event) {
  std::vector<std::pair<std::string, std::string>> stats;
  for (size_t i = 1; i < event.args.size(); ++i) {
    const Value& value = event.args[i];
    if (value.type == JOBSCOPE_ARG_NONE) continue;
    std::string text = value.text;
    if (value.type == JOBSCOPE_ARG_INT64) text = std::to_string(value.AsInt64());
    if (value.type == JOBSCOPE_ARG_NAME) text = jobscope_trace_reader()->name(value.bits);
    stats.emplace_back(event.keys[i], text);
  }
  return stats;
}

TEST_F(TorchCollectivesTest, BytesAndTypeComeFromTheTensors) {
  Arm();
  fake_.set_input_type("float");
  EXPECT_THAT(Stats(Collective("gloo:all_reduce", {{32, 64}, {128}})),
              ElementsAre(Pair("bytes", "8704"), Pair("dtype", "float32")));
  fake_.set_input_type("c10::BFloat16");
  EXPECT_THAT(Stats(Collective("gloo:broadcast", {{}})),
              ElementsAre(Pair("bytes", "2"), Pair("dtype", "bfloat16")));
  EXPECT_THAT(Stats(Collective("gloo:barrier", {})), IsEmpty());
  fake_.set_input_type("of the future");
  EXPECT_THAT(Stats(Collective("gloo:all_reduce", {{32}})), IsEmpty());
}

TEST_F(TorchCollectivesTest, AreReportedAtLevelOneToo) {
  Arm(/*host_level=*/1);
  fake_.set_input_type("double");
  EXPECT_THAT(Stats(Collective("gloo:all_reduce", {{3}})),
              ElementsAre(Pair("bytes", "24"), Pair("dtype", "float64")));
}

TEST_F(TorchCollectivesTest, OfNcclTheGroupIsKnown) {
  Arm();
  const Event event = Collective("nccl:all_reduce", {});
  EXPECT_EQ(event.name, "nccl:all_reduce (enqueue)");
  EXPECT_THAT(Stats(event), ElementsAre(Pair("process_group", "mesh_dp"), Pair("sequence", "41"),
                                        Pair("bytes", "2048"), Pair("dtype", "bfloat16"),
                                        Pair("group_size", "16")));
}

// They have no parameters, and PyTorch logs a warning where it is asked for them.
TEST_F(TorchCollectivesTest, OfCoalescedWorksNothingIsAskedFor) {
  Arm();
  EXPECT_THAT(Stats(Collective("nccl:coalesced", {})), IsEmpty());
}

// Their inputs cost every operator, so they are asked for where gloo is used, and there at once.
TEST_F(TorchCollectivesTest, CallsAreLookedAtOnceGlooWasSeen) {
  Arm();
  Collective("gloo:all_reduce", {{3}});
  EXPECT_TRUE(torch::WantsProcessGroups());
  EXPECT_EQ(collector_.Drain(), absl::InfiniteDuration());
  EXPECT_EQ(fake_.callbacks(), 4u);
  EXPECT_EQ(collector_.Drain(), absl::InfiniteDuration());
  EXPECT_EQ(fake_.callbacks(), 4u);
  EXPECT_TRUE(collector_.Stop(UINT64_MAX).ok());
  EXPECT_EQ(fake_.callbacks(), 0u);
  Arm();
  EXPECT_EQ(fake_.callbacks(), 4u);
  Arm(/*host_level=*/1);
  Collective("gloo:all_reduce", {{3}});
  (void)collector_.Drain();
  EXPECT_LE(fake_.callbacks(), 2u);  // user scopes, and backward functions to tell iterations by
}

TEST_F(TorchCollectivesTest, NoOtherScopeIsOne) {
  Arm();
  fake_.set_input_type("float");
  EXPECT_THAT(Stats(Collective("my_future", {{32}})), IsEmpty());
}

TEST(ElementTypeTest, KnowsBothNamesOfATypeAndNoOthers) {
  EXPECT_EQ(torch::ElementTypeOf("long int").dtype, "int64");
  EXPECT_EQ(torch::ElementTypeOf("Long").bytes, 8);
  EXPECT_EQ(torch::ElementTypeOf("").bytes, 0);
  EXPECT_EQ(torch::ElementTypeOf("TensorList").bytes, 0);
}

}  // namespace
}  // namespace jobscope
