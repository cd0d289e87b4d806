// SPDX-License-Identifier: Apache-2.0
//
// Continuous profiling that is to begin, or to end, while memory is short.
#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <exception>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/monotonic.h"
#include "server/tensorflow/continuous_profiling.h"
#include "tests/failing_memory.h"

namespace jobscope {
namespace {

thread_local bool t_starts = false;

// It would cost the job for as long as it runs: nothing knows that it is on.
TEST(ContinuousMemory, RecordingIsNotOnWithoutAProfilingThatTurnsItOff) {
  grpc_init();  // stays initialised, as in a server: timers that were cancelled may still expire
  std::optional<int> level;
  ContinuousProfiling profiling([&level](std::optional<int> host_level) { level = host_level; },
                                absl::Hours(1));
  t_starts = true;
  int failed = 0;
  while (!profiling.on()) {
    ASSERT_LT(failed, 1'000);
    ProfileCall call;
    call.options.recording.host_tracer_level = 2;
    const absl::Time now = SteadyNow();
    FailAllocations(failed + 1, /*failures=*/1, [] { return t_starts; });
    try {
      const absl::Status status = profiling.Start(std::move(call), now);
      StopFailing();
      EXPECT_TRUE(status.ok()) << status;
    } catch (const std::exception&) {
      StopFailing();
      ++failed;
      EXPECT_EQ(level, std::nullopt);
      EXPECT_FALSE(profiling.on());
    }
  }
  EXPECT_GT(failed, 1);
  EXPECT_EQ(level, 2);
  EXPECT_TRUE(profiling.Stop().ok());
  EXPECT_EQ(level, std::nullopt);
}

// A server ends so, whether profiling is on or, as usual, off.
TEST(ContinuousMemory, TurnsOffAndEndsWithoutAnyMemory) {
  grpc_init();
  for (const bool on : {false, true}) {
    std::optional<int> level;
    std::optional<ContinuousProfiling> profiling;
    profiling.emplace([&level](std::optional<int> host_level) { level = host_level; },
                      absl::Hours(1));
    if (on) {
      ASSERT_TRUE(profiling->Start(ProfileCall(), SteadyNow()).ok());
    }
    t_starts = true;
    FailAllocations(1, /*failures=*/1'000'000, [] { return t_starts; });
    EXPECT_NO_THROW(profiling->TurnOff());
    profiling.reset();
    StopFailing();
    EXPECT_EQ(level, std::nullopt);
  }
}

}  // namespace
}  // namespace jobscope
