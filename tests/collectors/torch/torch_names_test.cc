// SPDX-License-Identifier: Apache-2.0
//
// Names that a program makes without end. They use up what the process keeps of names, so this is a
// program of its own.
#include "collectors/torch/torch_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "collectors/torch/torch_library.h"
#include "tests/collectors/host/recorder/recorded.h"
#include "tests/collectors/torch/fake_torch.h"

namespace jobscope {
namespace {

namespace torch = framework::torch;

using recorder_test::Event;
using recorder_test::kAllBits;
using recorder_test::Record;
using ::testing::SizeIs;

TEST_F(TorchCollectorTest, NamesWithoutEndStayOutOfTheDictionary) {
  Arm();
  const size_t bound = torch::NameSites::kMaxNames[static_cast<size_t>(torch::Kind::kUser)];
  const auto events = Record(kAllBits, [&] {
    for (size_t i = 0; i < 2 * bound; ++i) Run(torch::kScopeUser, absl::StrCat("batch ", i));
    Run(torch::kScopeFunction, "aten::still_by_name");
    Run(torch::kScopeUser, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
    void* const work = fake_.begin(torch::kScopeUser, "batch 0", false);
    fake_.end(work);
  });
  ASSERT_THAT(events, SizeIs(2 * bound + 3));
  size_t by_argument = 0;
  for (size_t i = 0; i < 2 * bound; ++i) {
    const Event& event = events[i];
    if (event.args.empty()) {
      EXPECT_EQ(event.name, absl::StrCat("batch ", i));
      continue;
    }
    ++by_argument;
    EXPECT_EQ(event.name, "record_function");
    EXPECT_EQ(event.keys.at(0), "name");
    EXPECT_EQ(event.args[0].text, absl::StrCat("batch ", i));
  }
  EXPECT_GE(by_argument, bound);
  EXPECT_EQ(events[2 * bound].name, "aten::still_by_name");
  EXPECT_EQ(events[2 * bound + 1].role, uint32_t{JOBSCOPE_ROLE_INPUT_WAIT});
}

}  // namespace
}  // namespace jobscope
