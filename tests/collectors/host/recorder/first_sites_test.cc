// SPDX-License-Identifier: Apache-2.0
//
// The first sites of a process, met by several threads at once.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "jobscope/trace.h"
#include "jobscope/trace_c.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

constexpr int kThreads = 8;
constexpr int kProcesses = 40;

// Exit code: how many threads were refused.
[[noreturn]] void MeetTheFirstSite() {
  std::atomic<int> ready{0};
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ++ready;
      while (ready.load() < kThreads) continue;
      const uint32_t site = jobscope_trace_site("first", "", __FILE__, 1, JOBSCOPE_BIT_LEVEL1,
                                                JOBSCOPE_ROLE_SCOPE, nullptr, 0);
      jobscope_site_info info = {};
      if (jobscope_trace_reader()->site(site, &info) != 0 || std::string(info.name) != "first") {
        ++refused;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::_Exit(refused.load());
}

TEST(FirstSitesTest, AllAreFoundWhoeverComesFirst) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has met no site
  for (int i = 0; i < kProcesses; ++i) {
    EXPECT_EXIT(MeetTheFirstSite(), testing::ExitedWithCode(0), "");
  }
}

// Steps for which there was no name at first, as where the dictionary got no memory.
[[noreturn]] void StepWithoutAName() {
  constexpr uint32_t kNoName = 1;
  const Recording recording(JOBSCOPE_BIT_STEP);
  const auto* const writer = jobscope_trace_writer();
  writer->step_end(kNoName, writer->step_begin(kNoName, 0), 0);
  const uint64_t before = jobscope_trace_reader()->step_count();
  for (int64_t number = 0; number < 5; ++number) {
    JOBSCOPE_STEP("train", number);
  }
  std::_Exit(static_cast<int>(jobscope_trace_reader()->step_count() - before));
}

TEST(FirstSitesTest, StepsWithoutANameGiveWay) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(StepWithoutAName(), testing::ExitedWithCode(5), "");
}

}  // namespace
}  // namespace jobscope::recorder_test
