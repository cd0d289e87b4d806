// SPDX-License-Identifier: Apache-2.0
//
// With JOBSCOPE_DISABLED everything compiles, does nothing, and needs no library: this program does
// not link the recorder.
#define JOBSCOPE_DISABLED
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "jobscope/steps.h"
#include "jobscope/trace.h"

namespace {

TEST(Disabled, NothingIsEvaluated) {
  int evaluated = 0;
  const std::string only_recorded = "no warning about me";
  JOBSCOPE_SCOPE("scope");
  JOBSCOPE_SCOPE("scope", "n", ++evaluated, "s", only_recorded);
  JOBSCOPE_SCOPE_AT(2, "scope", "n", ++evaluated);
  JOBSCOPE_SCOPE_COARSE("coarse", "n", ++evaluated);
  JOBSCOPE_INPUT_WAIT("wait");
  JOBSCOPE_STEP("step", ++evaluated);
  JOBSCOPE_INSTANT("instant", "n", ++evaluated);
  JOBSCOPE_COUNTER("counter", ++evaluated);
  if (evaluated == 0)
    JOBSCOPE_INSTANT("in a branch");
  else
    JOBSCOPE_INSTANT("in the other");
  const jobscope::AsyncId id = jobscope::AsyncBegin("async");
  jobscope::AsyncEnd(id);
  const jobscope::Flow flow = jobscope::FlowOut();
  jobscope::FlowIn(flow);
  jobscope::SetThreadName("thread");
  EXPECT_EQ(evaluated, 0);
  EXPECT_EQ(id.value, 0u);
  EXPECT_EQ(flow.value, 0u);
  int64_t sum = 0;
  for (const auto& step : jobscope::Steps(std::vector<int>{3, 4}, "train", 10)) {
    sum += step.number * step.batch;
  }
  EXPECT_EQ(sum, 10 * 3 + 11 * 4);
}

}  // namespace
