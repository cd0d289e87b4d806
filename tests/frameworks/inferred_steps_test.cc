// SPDX-License-Identifier: Apache-2.0
//
// Which of several loops counts, and where a step begins. One process, one source of steps: one
// test, in its order.
#include "collectors/framework/inferred_steps.h"

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

  // Another name is another site, and the history begins there. (The generator has counted as one
  // of the sixteen.)
  for (int i = 0; i < 15; ++i) NoteStepEnd(33, "batch");
  NoteStepEnd(33, "batch");
  EXPECT_EQ(Ended().size(), 1u);
}

}  // namespace
}  // namespace jobscope::framework
