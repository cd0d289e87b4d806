// SPDX-License-Identifier: Apache-2.0
//
// The activities that are held, while allocations fail.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <new>

#include "collectors/cuda/held_activities.h"
#include "common/xspace/segment/store.h"
#include "tests/failing_memory.h"

namespace jobscope::cuda {
namespace {

// The session goes on, and writes what is held at its end.
TEST(HeldActivitiesMemory, NothingIsWrittenTwice) {
  pthread_setname_np(pthread_self(), "jobscope-test");
  constexpr int kMostAllocations = 2'000;
  constexpr uint64_t kActivities = 40;
  int at = 1;
  for (; at < kMostAllocations; ++at) {
    SCOPED_TRACE(at);
    xspace::Store store(16 << 20);
    xspace::Names names(&store);
    const CuptiApi api{};
    ApiCalls calls(&api);
    KernelNames kernels;
    (void)kernels.Find("_Z3addv");
    ThreadNames threads;
    Window window;
    window.end_ticks = UINT64_MAX;
    window.map = TickMap().WithZero(0);
    const StepTimeline steps(nullptr);
    SessionAccount account;
    EventWriter writer(&store, &names, &calls, &kernels, &threads, &window);
    HeldActivities held(&window, &steps, &calls, &writer, &account);
    for (uint64_t i = 0; i < kActivities; ++i) {
      TimedActivity timed;
      timed.activity.type = i % 2 == 0 ? ActivityType::kApi : ActivityType::kKernel;
      timed.activity.thread = 77;
      timed.activity.stream = static_cast<uint32_t>(i / 8);
      timed.start_ticks = 100 * i;
      timed.end_ticks = timed.start_ticks + 10;
      held.Take(timed);
    }
    bool threw = false;
    FailAllocations(at, /*failures=*/1);
    try {
      held.EmitUntil(100 * kActivities, 100 * kActivities);
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    const bool met = StopFailing() == 0;
    held.EmitUntil(UINT64_MAX, 100 * kActivities);
    writer.Flush();
    EXPECT_EQ(writer.appended() + writer.refused(), kActivities - (threw ? 1 : 0));
    EXPECT_EQ(held.bytes(), 0u);
    if (!met) break;  // it needs fewer allocations
  }
  EXPECT_GT(at, 20);
  EXPECT_LT(at, kMostAllocations);
}

}  // namespace
}  // namespace jobscope::cuda
