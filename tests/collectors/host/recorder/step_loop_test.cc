// SPDX-License-Identifier: Apache-2.0
//
// <jobscope/steps.h>: each iteration is a step, each wait for a batch an input wait before it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "jobscope/steps.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

using ::testing::ElementsAre;

// "wait", "step 3", "work": what was recorded, in the order of the ends.
std::vector<std::string> Recorded(const std::function<void()>& body, uint32_t bits = kAllBits) {
  std::vector<std::string> names;
  for (const Event& event : Record(bits, body)) {
    if (event.kind == JOBSCOPE_KIND_STEP_BEGIN) continue;
    if (event.role == JOBSCOPE_ROLE_INPUT_WAIT) {
      names.emplace_back("wait");
    } else if (event.kind == JOBSCOPE_KIND_STEP) {
      names.push_back(event.name + " " + std::to_string(event.args.at(0).AsInt64()));
    } else {
      names.push_back(event.name);
    }
  }
  return names;
}

TEST(StepLoop, EachBatchOfARangeIsAStep) {
  const std::vector<int> loader = {10, 20};
  std::vector<std::pair<int64_t, int>> seen;
  EXPECT_THAT(Recorded([&] {
                for (const auto& step : Steps(loader)) {
                  JOBSCOPE_SCOPE("work");
                  seen.emplace_back(step.number, step.batch);
                  EXPECT_EQ(&step.batch, &loader[static_cast<size_t>(step.number)]) << "no copy";
                }
              }),
              ElementsAre("wait", "work", "train 0", "wait", "work", "train 1", "wait"));
  EXPECT_THAT(seen, ElementsAre(std::make_pair(0, 10), std::make_pair(1, 20)));
}

TEST(StepLoop, NamesNumbersAndTemporariesAreTheLoops) {
  EXPECT_THAT(Recorded([] {
                for (const auto& [number, batch] : Steps(std::vector<int>{1}, "evaluate", 7)) {
                  EXPECT_EQ(number, 7);
                  EXPECT_EQ(batch, 1);
                }
              }),
              ElementsAre("wait", "evaluate 7", "wait"));
  EXPECT_THAT(Recorded([] {
                for (const auto& step : Steps(std::vector<int>())) (void)step;
              }),
              ElementsAre("wait"));
}

TEST(StepLoop, TakesAFunctionThatGivesBatches) {
  int left = 2;
  std::vector<int> seen;
  const auto next = [&]() -> std::optional<int> {
    return left == 0 ? std::nullopt : std::optional<int>(left--);
  };
  EXPECT_THAT(Recorded([&] {
                for (const auto& step : Steps(next)) seen.push_back(step.batch);
              }),
              ElementsAre("wait", "train 0", "wait", "train 1", "wait"));
  EXPECT_THAT(seen, ElementsAre(2, 1));
  // What can only be moved: the step has it until the next one.
  left = 1;
  for (const auto& step :
       Steps([&] { return left-- > 0 ? std::make_unique<int>(5) : std::unique_ptr<int>(); })) {
    EXPECT_EQ(step.batch, 5);
  }
}

TEST(StepLoop, ALoopThatIsLeftEndsItsStep) {
  const std::vector<int> loader = {10, 20};
  EXPECT_THAT(Recorded([&] {
                for (const auto& step : Steps(loader)) {
                  if (step.number == 0) break;
                }
                JOBSCOPE_SCOPE("after");
              }),
              ElementsAre("wait", "train 0", "after"));
  EXPECT_THAT(Recorded([&] {
                try {
                  for (const auto& step : Steps(loader)) {
                    throw std::runtime_error(std::to_string(step.number));
                  }
                } catch (const std::runtime_error&) {
                }
                JOBSCOPE_SCOPE("after");
              }),
              ElementsAre("wait", "train 0", "after"));
}

TEST(StepLoop, LooksAtTheMaskEachTime) {
  const std::vector<int> loader = {1, 2};
  EXPECT_THAT(Recorded(
                  [&] {
                    for (const auto& step : Steps(loader)) (void)step;
                  },
                  JOBSCOPE_BIT_STEP),
              ElementsAre("train 0", "train 1"));
  EXPECT_THAT(Recorded(
                  [&] {
                    for (const auto& step : Steps(loader)) (void)step;
                  },
                  JOBSCOPE_BIT_LEVEL1),
              ElementsAre());
}

}  // namespace
}  // namespace jobscope::recorder_test
