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
    Correlations correlations(&window);
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
                                   timed.start_ticks - 2 * kSecond);
    }
    EXPECT_LT(most, call.may_have_work ? 1'200'000u : 1u);
    // Each launch is in flight or forgotten.
    EXPECT_EQ(correlations.InFlight() + correlations.forgotten_launches(),
              call.launches ? kIds : 0u);
  }
}

TimedActivity CallWithId(uint32_t id) {
  TimedActivity timed;
  timed.activity.type = ActivityType::kApi;
  timed.activity.correlation = id;
  timed.start_ticks = 100 + id;
  return timed;
}

// At the end all full buffers are read at once, and nothing is forgotten by its age.
TEST(CorrelationsTest, AreBoundedWhileTheEndIsRead) {
  constexpr uint32_t kIds = 4'000'000;
  const Window window;
  for (const bool launches : {false, true}) {
    SCOPED_TRACE(launches);
    ApiCall call;
    call.launches = launches;
    Correlations correlations(&window);
    size_t most = 0;
    for (uint32_t id = 1; id <= kIds; ++id) {
      correlations.NoteCall(CallWithId(id), call);
      most = std::max(most, correlations.size());
    }
    EXPECT_LE(most, Correlations::kMaxIds);
    EXPECT_EQ(correlations.InFlight() + correlations.forgotten_launches(), launches ? kIds : 0u);
    EXPECT_EQ(correlations.Find(1), nullptr);
    // The latest ones are known.
    EXPECT_NE(correlations.Find(kIds - Correlations::kMaxIds / 4), nullptr);
    EXPECT_NE(correlations.Find(kIds), nullptr);
  }
}

// Their kernels may be in the next buffer: they would count as lost.
TEST(CorrelationsTest, LaunchesWhoseWorkIsToComeAreForgottenLast) {
  constexpr uint32_t kLaunches = 1'000;
  constexpr uint32_t kIds = 4'000'000;
  const Window window;
  ApiCall launch;
  launch.launches = true;
  Correlations correlations(&window);
  for (uint32_t id = 1; id <= kLaunches; ++id) correlations.NoteCall(CallWithId(id), launch);
  for (uint32_t id = kLaunches + 1; id <= kIds; ++id) {
    correlations.NoteCall(CallWithId(id), ApiCall());
  }
  for (uint32_t id = 1; id <= kLaunches; ++id) {
    TimedActivity kernel = CallWithId(id);
    kernel.activity.type = ActivityType::kKernel;
    EXPECT_TRUE(correlations.NoteWork(kernel).has_call) << id;
  }
  EXPECT_EQ(correlations.InFlight() + correlations.forgotten_launches(), 0u);
}

// A process that exits does not wait for what is held.
TEST(CorrelationsTest, AWaitIsSettledWithoutItsCall) {
  ApiCall call;
  call.may_have_work = false;  // cudaStreamSynchronize
  const Window window;
  Correlations correlations(&window);
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
