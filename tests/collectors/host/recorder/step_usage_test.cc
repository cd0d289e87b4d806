// SPDX-License-Identifier: Apache-2.0
//
// Tests the usage in a step's record: processor time, run-queue delay, involuntary switches of its
// thread.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <thread>
#include <vector>

#include "jobscope/trace.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

using ::testing::SizeIs;

constexpr uint32_t kBits = JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_STEP_USAGE;
constexpr int64_t kMs = 1'000'000;
// A machine that gives nobody a processor fails the test instead of hanging it.
constexpr int64_t kTimeoutNs = 60'000 * kMs;

int64_t Now(clockid_t clock) {
  timespec time = {};
  clock_gettime(clock, &time);
  return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
}

int64_t RunDelayNs() {
  int64_t on_processor = 0;
  int64_t delay = -1;
  std::ifstream("/proc/thread-self/schedstat") >> on_processor >> delay;
  return delay;
}

void Compute(int64_t cpu_ns) {
  const int64_t end = Now(CLOCK_THREAD_CPUTIME_ID) + cpu_ns;
  while (Now(CLOCK_THREAD_CPUTIME_ID) < end) {
  }
}

// The steps among the events, in the order of their ends.
std::vector<Event> Steps(const std::vector<Event>& events) {
  std::vector<Event> steps;
  for (const Event& event : events) {
    if (event.kind == JOBSCOPE_KIND_STEP) steps.push_back(event);
  }
  return steps;
}

int64_t Figure(const Event& step, uint32_t argument) {
  const bool known = argument < step.args.size() && step.args[argument].type == JOBSCOPE_ARG_INT64;
  return known ? step.args[argument].AsInt64() : -1;
}

TEST(StepUsage, IsReadWhileItIsWantedAndAtNoOtherTime) {
  const auto body = [] {
    for (int i = 0; i < 2; ++i) {
      JOBSCOPE_STEP("train", i);
    }
  };
  for (const Event& step : Steps(Record(JOBSCOPE_BIT_STEP, body)))
    EXPECT_THAT(step.args, SizeIs(1));
  const auto steps = Steps(Record(kBits, body));
  ASSERT_THAT(steps, SizeIs(2));
  for (const Event& step : steps) EXPECT_THAT(step.args, SizeIs(4));
}

// Of the step, and of what its thread did since the step before.
TEST(StepUsage, ProcessorTimeIsThatSinceTheStepBefore) {
  int64_t most = 0;
  const auto steps = Steps(Record(kBits, [&most] {
    Compute(20 * kMs);  // before the first one: its own begin is the first that is known
    const int64_t begin = Now(CLOCK_THREAD_CPUTIME_ID);
    {
      JOBSCOPE_STEP("train", 0);
      Compute(3 * kMs);
    }
    Compute(4 * kMs);
    {
      JOBSCOPE_STEP("train", 1);
      Compute(2 * kMs);
    }
    most = Now(CLOCK_THREAD_CPUTIME_ID) - begin;
  }));
  ASSERT_THAT(steps, SizeIs(2));
  const int64_t first = Figure(steps[0], JOBSCOPE_STEP_CPU_NS);
  const int64_t second = Figure(steps[1], JOBSCOPE_STEP_CPU_NS);
  EXPECT_GE(first, 3 * kMs - kMs / 100);
  EXPECT_GE(second, 6 * kMs);
  EXPECT_LE(first + second, most);
}

TEST(StepUsage, AThreadThatWaitsForAProcessorSaysSo) {
  if (RunDelayNs() < 0) GTEST_SKIP() << "this kernel has no schedstat";
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(sched_getcpu()), &one);
  std::atomic<bool> over{false};
  std::thread other([&] {
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    while (!over.load(std::memory_order_relaxed)) {
    }
  });
  int64_t delay = 0;
  const auto steps = Steps(Record(kBits, [&] {
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    const int64_t before = RunDelayNs();
    const int64_t give_up = Now(CLOCK_MONOTONIC) + kTimeoutNs;
    JOBSCOPE_STEP("train", 0);
    const int64_t begin = RunDelayNs();
    // With a switch that nobody asked for, which a look at the delay alone need not have.
    while (RunDelayNs() < begin + 5 * kMs && Now(CLOCK_MONOTONIC) < give_up) Compute(kMs);
    delay = RunDelayNs() - before;
  }));
  over = true;
  other.join();
  ASSERT_THAT(steps, SizeIs(1));
  EXPECT_GE(Figure(steps[0], JOBSCOPE_STEP_RUN_DELAY_NS), 5 * kMs);
  EXPECT_GE(delay, 5 * kMs);
  EXPECT_GE(Figure(steps[0], JOBSCOPE_STEP_INVOLUNTARY_SWITCHES), 1);
}

TEST(StepUsage, OfAStepAroundAnotherNothingIsSaid) {
  const auto steps = Steps(Record(kBits, [] {
    JOBSCOPE_STEP("epoch", 0);
    JOBSCOPE_STEP("train", 0);
  }));
  ASSERT_THAT(steps, SizeIs(2));
  EXPECT_EQ(steps[0].name, "train");
  EXPECT_THAT(steps[0].args, SizeIs(4));
  EXPECT_EQ(steps[1].name, "epoch");
  EXPECT_THAT(steps[1].args, SizeIs(1));
}

TEST(StepUsage, WhatLiesBetweenTwoCapturesBelongsToNoStep) {
  for (const uint32_t between : {uint32_t{JOBSCOPE_BIT_STEP}, uint32_t{0}}) {
    const auto steps = Steps(Record(kBits, [between] {
      for (int i = 0; i < 3; ++i) {
        if (i == 1) {
          jobscope_trace_reader()->set_mask(JOBSCOPE_HOLDER_SESSION, between);
          Compute(50 * kMs);
        }
        if (i == 2) jobscope_trace_reader()->set_mask(JOBSCOPE_HOLDER_SESSION, kBits);
        JOBSCOPE_STEP("train", i);
      }
    }));
    ASSERT_THAT(steps, SizeIs(between != 0 ? 3 : 2));
    EXPECT_THAT(steps.back().args, SizeIs(4));
    EXPECT_LT(Figure(steps.back(), JOBSCOPE_STEP_CPU_NS), 50 * kMs);
    if (between != 0) {
      EXPECT_THAT(steps[1].args, SizeIs(1));
    }
  }
}

TEST(StepUsage, ErrnoAndDescriptorsAreTheProgramsOwn) {
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  std::vector<Event> steps;
  int error = 0;
  {
    const rlimit none = {0, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    steps = Steps(Record(kBits, [&error] {
      errno = EAGAIN;
      {
        JOBSCOPE_STEP("train", 0);
        sched_yield();
      }
      error = errno;
    }));
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  }
  EXPECT_EQ(error, EAGAIN);
  ASSERT_THAT(steps, SizeIs(1));
  ASSERT_THAT(steps[0].args, SizeIs(4));
  EXPECT_GE(Figure(steps[0], JOBSCOPE_STEP_CPU_NS), 0);
  EXPECT_EQ(steps[0].args[JOBSCOPE_STEP_RUN_DELAY_NS].type, uint32_t{JOBSCOPE_ARG_NONE});
}

// In a process that marks none.
TEST(StepUsageDeathTest, InferredStepsHaveItToo) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto infers = [] {
    const jobscope_site site = {
        sizeof(jobscope_site),       0, "inferred", "", "", 0, JOBSCOPE_BIT_STEP,
        JOBSCOPE_ROLE_INFERRED_STEP, 0};
    const auto* const writer = jobscope_trace_writer();
    const auto steps = Steps(Record(kBits, [&] {
      const uint32_t id = writer->find_site(&site, nullptr, 0);
      uint64_t begin = writer->step_boundary(id, 1, 0);
      Compute(3 * kMs);
      begin = writer->step_boundary(id, 1, begin);
      Compute(2 * kMs);
      writer->step_boundary(id, 2, begin);
    }));
    const bool right = steps.size() == 2 &&
                       Figure(steps[0], JOBSCOPE_STEP_CPU_NS) >= 3 * kMs - kMs / 100 &&
                       Figure(steps[1], JOBSCOPE_STEP_CPU_NS) >= 2 * kMs - kMs / 100;
    _exit(right ? 0 : 1);
  };
  EXPECT_EXIT(infers(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace jobscope::recorder_test
