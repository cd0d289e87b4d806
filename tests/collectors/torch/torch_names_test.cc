// SPDX-License-Identifier: Apache-2.0
//
// Tests names that a program makes without end. A program of its own, because they fill the
// process's table of names.
#include "collectors/torch/torch_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

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

// Temporary names, and long ones, of which the recorder keeps the front.
TEST(NameSites, OneAddressMayHoldOneNameAfterAnother) {
  // Lives on, as its entries do, which are never freed.
  static auto* const sites = new torch::NameSites(jobscope_trace_writer());
  std::string name = "aten::first";
  const auto find = [&](torch::Kind kind) { return sites->Find(kind, name.c_str()).site; };
  const uint32_t first = find(torch::Kind::kOperator);
  EXPECT_EQ(find(torch::Kind::kOperator), first);
  EXPECT_NE(find(torch::Kind::kBackward), first);
  for (const char* other : {"aten::other", "aten::firs", "aten::first2"}) {
    name.replace(0, name.size(), other);
    EXPECT_NE(find(torch::Kind::kOperator), first) << other;
  }
  name.replace(0, name.size(), "aten::first");
  EXPECT_EQ(find(torch::Kind::kOperator), first);

  name.assign(torch::NameSites::kMaxBytes, 'x');
  const uint32_t of_front = find(torch::Kind::kOperator);
  name += "and more";
  EXPECT_EQ(find(torch::Kind::kOperator), of_front);
  EXPECT_EQ(find(torch::Kind::kOperator), of_front);
}

}  // namespace
}  // namespace jobscope
