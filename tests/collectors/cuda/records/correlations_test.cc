// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/correlations.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "collectors/cuda/records/api_calls.h"
#include "collectors/cuda/records/timed_activity.h"

namespace jobscope::cuda {
namespace {

// 400,000 calls per second, for ten seconds.
TEST(CorrelationsTest, AreBoundedHoweverManyCallsThereAre) {
  constexpr uint64_t kSecond = 1'000'000'000;
  constexpr uint32_t kIds = 4'000'000;
  const Window window;
  ApiCall calls[3];
  calls[0].may_have_work = false;  // cudaEventQuery
  calls[2].launches = true;
  for (size_t i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    const ApiCall& call = calls[i];
    Correlations correlations;
    size_t most = 0;
    uint64_t last_forgotten = 0;
    TimedActivity timed;
    timed.activity.type = ActivityType::kApi;
    for (uint32_t id = 1; id <= kIds; ++id) {
      timed.activity.correlation = id;
      timed.start_ticks = 100 * kSecond + id * (10 * kSecond / kIds);
      correlations.NoteCall(timed, call);
      if (timed.start_ticks - last_forgotten < kSecond / 4) continue;
      last_forgotten = timed.start_ticks;
      most = std::max(most, correlations.size());
      correlations.ForgetOlderThan(timed.start_ticks - 10 * kSecond,
                                   timed.start_ticks - 2 * kSecond, window);
    }
    EXPECT_LT(most, call.may_have_work ? 1'200'000u : 1u);
    // Each launch is in flight or forgotten.
    EXPECT_EQ(correlations.InFlight(window) + correlations.forgotten_launches(),
              call.launches ? kIds : 0u);
  }
}

// A process that exits does not wait for what is held.
TEST(CorrelationsTest, AWaitIsSettledWithoutItsCall) {
  ApiCall call;
  call.may_have_work = false;  // cudaStreamSynchronize
  Correlations correlations;
  TimedActivity timed;
  timed.activity.type = ActivityType::kApi;
  timed.activity.correlation = 7;
  correlations.NoteCall(timed, call);
  EXPECT_TRUE(correlations.IsSettled(timed.activity));
  timed.activity.type = ActivityType::kSync;
  EXPECT_TRUE(correlations.IsSettled(timed.activity));
  timed.activity.type = ActivityType::kKernel;
  EXPECT_FALSE(correlations.IsSettled(timed.activity));
}

}  // namespace
}  // namespace jobscope::cuda
