// SPDX-License-Identifier: Apache-2.0
//
// Which of several loops counts, and where a step begins. One process, one source of steps: one
// test, in its order.
#include "collectors/inferred/inferred_steps.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "collectors/host/recorder/reader_abi.h"

namespace jobscope::framework {
namespace {

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

constexpr uint64_t kGenerator = 11, kDiscriminator = 22;

void End(uint64_t source) { NoteStepEnd(source, "optimizer step"); }

// Numbers of the steps that have an end, oldest first.
std::vector<int64_t> Ended() {
  std::vector<jobscope_step_info> steps(256);
  steps.resize(Reader()->recent_steps(steps.data(), steps.size()));
  std::vector<int64_t> numbers;
  for (const jobscope_step_info& step : steps) {
    if (step.end_ticks != 0) numbers.push_back(step.number);
  }
  return numbers;
}

using Numbers = std::vector<int64_t>;

TEST(InferredSteps, OneSourceCountsAndNothingThatWasNotWatchedIsAStep) {
  Reader()->set_mask(JOBSCOPE_HOLDER_ALWAYS_ON, JOBSCOPE_BIT_STEP);
  End(kGenerator);
  EXPECT_EQ(Reader()->step_count(), 0u);  // no recorder was given
  RecordInferredSteps(jobscope_trace_writer());

  // The first end is the first step's begin.
  End(kGenerator);
  EXPECT_EQ(Ended(), Numbers());
  End(kGenerator);
  End(kGenerator);
  EXPECT_EQ(Ended(), (Numbers{1, 2}));

  // Five of another one per step of the first are not steps.
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 5; ++i) End(kDiscriminator);
    End(kGenerator);
  }
  EXPECT_EQ(Ended().size(), 12u);
  EXPECT_EQ(Ended().back(), 12);

  // While nobody wants steps none is recorded, and what lies there is not one long step.
  Reader()->set_mask(JOBSCOPE_HOLDER_ALWAYS_ON, 0);
  End(kGenerator);
  Reader()->set_mask(JOBSCOPE_HOLDER_ALWAYS_ON, JOBSCOPE_BIT_STEP);
  End(kGenerator);
  EXPECT_EQ(Ended().size(), 12u);
  End(kGenerator);
  EXPECT_EQ(Ended().size(), 13u);

  // Nor what its watcher did not see.
  ForgetStepBegin(kGenerator);
  End(kGenerator);
  EXPECT_EQ(Ended().size(), 13u);
  End(kGenerator);
  EXPECT_EQ(Ended().size(), 14u);
  ForgetStepBegin(kDiscriminator);
  End(kGenerator);
  EXPECT_EQ(Ended().size(), 15u);
  const int64_t last = Ended().back();

  // A source that has fallen silent loses its place to one that goes on.
  for (int i = 0; i < 16; ++i) End(kDiscriminator);
  EXPECT_EQ(Ended().back(), last);
  End(kDiscriminator);
  End(kDiscriminator);
  EXPECT_EQ(Ended().size(), 17u);
  End(kGenerator);
  EXPECT_EQ(Ended().size(), 17u);

  // Another name is another site, and the history begins there. (The generator's one end made it
  // the next in turn, for as long as 16 of others.)
  for (int i = 0; i < 15 + 15; ++i) NoteStepEnd(33, "batch");
  EXPECT_EQ(Ended().size(), 17u);
  for (int i = 0; i < 2; ++i) NoteStepEnd(33, "batch");
  EXPECT_EQ(Ended().size(), 1u);

  // An optimizer that is called for one part of the parameters after the other makes one step of
  // each round, however many parts there are; nor do parts win a place by their number.
  const auto round = [](uint64_t first, uint64_t parts) {
    for (uint64_t part = first; part < first + parts; ++part) {
      NoteStepEnd(44, "optimizer step", part);
    }
  };
  round(1, 100);
  NoteStepEnd(33, "batch");
  EXPECT_EQ(Ended().size(), 2u);
  for (int i = 0; i < 15; ++i) round(1, 3);
  EXPECT_EQ(Ended().size(), 2u);
  for (int i = 0; i < 2; ++i) round(1, 3);
  EXPECT_EQ(Ended().size(), 1u);
  for (int i = 0; i < 10; ++i) round(1, 3);
  EXPECT_EQ(Ended().size(), 11u);
  // The part that came first is gone: its parameters were replaced.
  for (int i = 0; i < 10; ++i) round(2, 3);
  EXPECT_EQ(Ended().size(), 21u);
  // Parts that never come again are no parts: the first 255 are left out (with two of the last
  // round).
  for (uint64_t i = 0; i < 300; ++i) NoteStepEnd(44, "optimizer step", 1000 + i);
  EXPECT_EQ(Ended().size(), 21u + 300 - 253);
}

}  // namespace
}  // namespace jobscope::framework
