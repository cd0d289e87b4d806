// SPDX-License-Identifier: Apache-2.0
//
// The activities that are held, while allocations fail.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <new>

#include "tests/collectors/cuda/events/writer_rig.h"
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
    WriterRig rig;
    (void)rig.kernels.Find("_Z3addv");
    for (uint64_t i = 0; i < kActivities; ++i) {
      TimedActivity timed = At(i % 2 == 0 ? ActivityType::kApi : ActivityType::kKernel, 100 * i);
      timed.activity.stream = static_cast<uint32_t>(i / 8);
      rig.held.Take(timed);
    }
    bool threw = false;
    FailAllocations(at, /*failures=*/1);
    try {
      rig.held.EmitUntil(100 * kActivities, 100 * kActivities);
    } catch (const std::bad_alloc&) {
      threw = true;
    }
    const bool met = StopFailing() == 0;
    rig.held.EmitUntil(UINT64_MAX, 100 * kActivities);
    rig.writer.Flush();
    EXPECT_EQ(rig.writer.appended() + rig.writer.refused(), kActivities - (threw ? 1 : 0));
    EXPECT_EQ(rig.held.bytes(), 0u);
    if (!met) break;  // it needs fewer allocations
  }
  EXPECT_GT(at, 20);
  EXPECT_LT(at, kMostAllocations);
}

}  // namespace
}  // namespace jobscope::cuda
