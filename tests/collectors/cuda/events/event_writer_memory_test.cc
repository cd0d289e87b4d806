// SPDX-License-Identifier: Apache-2.0
//
// The writer of events while allocations fail.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <new>

#include "collectors/cuda/events/event_writer.h"
#include "common/xspace/segment/store.h"
#include "tests/failing_memory.h"

namespace jobscope::cuda {
namespace {

TimedActivity At(ActivityType type, uint64_t begin) {
  TimedActivity timed;
  timed.activity.type = type;
  timed.activity.sub_kind = 1;
  timed.activity.thread = 77;
  timed.start_ticks = begin;
  timed.end_ticks = begin + 10;
  return timed;
}

// The session goes on, and flushes all lines at its end.
TEST(EventWriterMemory, EventsAreWrittenAsAWholeOrNotAtAll) {
  pthread_setname_np(pthread_self(), "jobscope-test");
  constexpr int kMostAllocations = 2'000;
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
    window.map = TickMap().WithZero(0);
    EventWriter writer(&store, &names, &calls, &kernels, &threads, &window);
    uint64_t written = 0;
    const auto write = [&](auto&& event) {
      try {
        event();
        ++written;
      } catch (const std::bad_alloc&) {
      }
    };
    FailAllocations(at, /*failures=*/1);
    write([&] { writer.Device(At(ActivityType::kKernel, 100), nullptr); });
    write([&] { writer.Device(At(ActivityType::kSet, 105), nullptr); });  // in a second lane
    write([&] { writer.Api(At(ActivityType::kApi, 100), nullptr, nullptr); });
    write([&] { writer.Memory(At(ActivityType::kMemory, 100)); });
    write([&] { writer.Other(At(ActivityType::kSync, 100)); });
    const bool met = StopFailing() == 0;
    writer.Flush();
    EXPECT_EQ(writer.appended() + writer.refused(), written);
    if (!met) break;  // it needs fewer allocations
  }
  EXPECT_GT(at, 20);
  EXPECT_LT(at, kMostAllocations);
}

}  // namespace
}  // namespace jobscope::cuda
