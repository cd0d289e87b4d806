// SPDX-License-Identifier: Apache-2.0
//
// One thread's events: memory and time stay in proportion to their number.
#include "analysis/trace/host_line.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <memory>

namespace jobscope::analysis {
namespace {

constexpr int64_t kUs = 1000;

HostEvent Event(uint32_t name, int64_t begin_ns, int64_t end_ns) {
  HostEvent event;
  event.name = name;
  event.begin_ns = begin_ns;
  event.end_ns = end_ns;
  return event;
}

HostEvent Step(uint32_t name, int64_t number, int64_t begin_ns, int64_t end_ns) {
  HostEvent event = Event(name, begin_ns, end_ns);
  event.step = number;
  return event;
}

size_t AllocatedBytes() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(HostLineTest, AThreadTakesNoMemoryForNamesOfOtherThreads) {
  NameTable names;
  uint32_t last = 0;
  for (int i = 0; i < 60'000; ++i) {
    last = names.Intern("name " + std::to_string(i), EventKind::kScope, {});
  }
  constexpr size_t kThreads = 100;
  std::vector<std::unique_ptr<HostLine>> threads;
  const size_t before = AllocatedBytes();
  for (size_t i = 0; i < kThreads; ++i) {
    threads.push_back(std::make_unique<HostLine>(&names));
    HostLine& thread = *threads.back();
    HostEvent input = Event(last, 20 * kUs, 30 * kUs);
    input.kind = EventKind::kInput;
    EXPECT_TRUE(thread.Add(Event(last, 0, 5 * kUs)));
    EXPECT_TRUE(thread.Add(Step(last, 1, 10 * kUs, 50 * kUs)));
    EXPECT_TRUE(thread.Add(input));
    thread.Finish();
    EXPECT_EQ(thread.steps().size(), 1u);
  }
  EXPECT_LT(AllocatedBytes(), before + kThreads * 10'000);
}

}  // namespace
}  // namespace jobscope::analysis
