// SPDX-License-Identifier: Apache-2.0
//
// Tests samples of the scopes that are open on a thread, taken by other threads.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "jobscope/trace.h"
#include "jobscope/trace_c.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

class OpenScopes : public testing::Test {
 protected:
  static std::vector<jobscope_open_scope> Sample(uint64_t serial, size_t capacity = 64) {
    std::vector<jobscope_open_scope> scopes(capacity);
    scopes.resize(Reader()->open_scopes(serial, scopes.data(), scopes.size()));
    return scopes;
  }
  static std::string Name(uint32_t site) {
    jobscope_site_info info;
    return Reader()->site(site, &info) == 0 ? info.name : "?";
  }
  Recording recording_{kAllBits};
};

TEST_F(OpenScopes, OutermostFirstWithTheStepNumber) {
  const uint64_t me = MySerial();
  EXPECT_TRUE(Sample(me).empty());
  {
    JOBSCOPE_STEP("train", 12);
    JOBSCOPE_SCOPE("all_reduce", "bytes", 5);
    JOBSCOPE_SCOPE_COARSE("wait");
    const auto scopes = Sample(me);
    ASSERT_EQ(scopes.size(), 3u);
    EXPECT_EQ(Name(scopes[0].site), "train");
    EXPECT_EQ(scopes[0].has_step_number, 1);
    EXPECT_EQ(scopes[0].step_number, 12);
    EXPECT_EQ(Name(scopes[1].site), "all_reduce");
    EXPECT_EQ(scopes[1].has_step_number, 0);
    EXPECT_EQ(Name(scopes[2].site), "wait");
    EXPECT_EQ(scopes[2].depth, 2);
    EXPECT_LT(scopes[0].begin_ticks, scopes[2].begin_ticks);
    EXPECT_EQ(Sample(me, 2).size(), 2u);
  }
  EXPECT_TRUE(Sample(me).empty());
  EXPECT_TRUE(Sample(123456789).empty());
}

uint32_t MovingSite() {
  return jobscope_trace_site("moves", nullptr, nullptr, 0, JOBSCOPE_BIT_LEVEL1, JOBSCOPE_ROLE_SCOPE,
                             nullptr, 0);
}

void EndElsewhere(jobscope_token token) {
  std::thread([&] { jobscope_trace_end(MovingSite(), token, nullptr, 0); }).join();
}

TEST_F(OpenScopes, NotWhatHasEndedOnAnotherThread) {
  const uint64_t me = MySerial();
  EndElsewhere(jobscope_trace_begin(MovingSite()));
  EXPECT_TRUE(Sample(me).empty());
  {
    JOBSCOPE_SCOPE("outer");
    const jobscope_token moved = jobscope_trace_begin(MovingSite());
    JOBSCOPE_SCOPE("inner");
    ASSERT_EQ(Sample(me).size(), 3u);
    EXPECT_EQ(Sample(me)[0].depth, 0) << "its place on the stack is free again";
    EndElsewhere(moved);
    const auto scopes = Sample(me);
    ASSERT_EQ(scopes.size(), 2u);
    EXPECT_EQ(Name(scopes[0].site), "outer");
    EXPECT_EQ(Name(scopes[1].site), "inner");
    EXPECT_EQ(scopes[1].depth, 2);
  }
  EXPECT_TRUE(Sample(me).empty());
}

// For any number of such scopes, and any state of the thread at their ends.
TEST_F(OpenScopes, WhatEndsElsewhereLeavesThePlaceToOthers) {
  const uint64_t me = MySerial();
  JOBSCOPE_SCOPE("loop");
  for (int i = 0; i < 200; ++i) {
    const jobscope_token moved = jobscope_trace_begin(MovingSite());
    JOBSCOPE_SCOPE("wait");
    EndElsewhere(moved);
    JOBSCOPE_SCOPE("inside the wait");
  }
  JOBSCOPE_SCOPE("last");
  const auto scopes = Sample(me);
  ASSERT_EQ(scopes.size(), 2u);
  EXPECT_EQ(Name(scopes[1].site), "last");
  EXPECT_EQ(scopes[1].depth, 1);
}

// Meanwhile the first thread begins and ends other scopes of its own.
TEST_F(OpenScopes, EndedByAnotherThreadAllTheTime) {
  const uint64_t me = MySerial();
  constexpr int kMoves = 20'000;
  std::vector<jobscope_token> moved(kMoves);
  std::atomic<int> begun{0};
  std::thread other([&] {
    const uint32_t site = MovingSite();
    for (int i = 0; i < kMoves; ++i) {
      while (begun.load(std::memory_order_acquire) <= i) std::this_thread::yield();
      jobscope_trace_end(site, moved[static_cast<size_t>(i)], nullptr, 0);
    }
  });
  jobscope_cursor cursor = {FindThread(me).head_record, FindThread(me).head_event};
  uint64_t own = 0;
  const uint32_t site = MovingSite();
  for (int i = 0; i < kMoves; ++i) {
    moved[static_cast<size_t>(i)] = jobscope_trace_begin(site);
    begun.store(i + 1, std::memory_order_release);
    JOBSCOPE_SCOPE("outer");
    JOBSCOPE_SCOPE("inner");
    own += 2;
  }
  other.join();
  JOBSCOPE_SCOPE("last");
  const auto scopes = Sample(me);
  ASSERT_EQ(scopes.size(), 1u);
  EXPECT_EQ(Name(scopes[0].site), "last");
  EXPECT_EQ(scopes[0].depth, 0);
  const ReadAllResult read = ReadAll(me, &cursor);
  EXPECT_EQ(read.events.size() + read.lost, own);
}

void Deep(int levels, uint64_t me) {
  JOBSCOPE_SCOPE("deep");
  if (levels > 1) return Deep(levels - 1, me);
  std::vector<jobscope_open_scope> scopes(100);
  EXPECT_EQ(Reader()->open_scopes(me, scopes.data(), scopes.size()), 64u);
}

TEST_F(OpenScopes, DeeperThan64IsCountedButNotKept) {
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [] { Deep(300, MySerial()); });
  ASSERT_EQ(events.size(), 300u);
  EXPECT_EQ(events[0].depth, 255u);
  EXPECT_EQ(events[299].depth, 0u);
}

TEST_F(OpenScopes, ScopesLeftWithoutAnEndGoWithTheirParent) {
  const uint32_t site = jobscope_trace_site("c scope", "", "", 0, JOBSCOPE_BIT_LEVEL1,
                                            JOBSCOPE_ROLE_SCOPE, nullptr, 0);
  const uint64_t me = MySerial();
  {
    JOBSCOPE_SCOPE("parent");
    jobscope_trace_begin(site);
    jobscope_trace_begin(site);
    EXPECT_EQ(Sample(me).size(), 3u);
  }
  EXPECT_TRUE(Sample(me).empty());
}

TEST_F(OpenScopes, AScopeThatEndsOnAnotherThreadLeavesItsStackAlone) {
  const uint32_t site = jobscope_trace_site("wanders", "", "", 0, JOBSCOPE_BIT_LEVEL1,
                                            JOBSCOPE_ROLE_SCOPE, nullptr, 0);
  const jobscope_token token = jobscope_trace_begin(site);
  const auto events = Record(kAllBits, [&] {
    JOBSCOPE_SCOPE("there");
    jobscope_trace_end(site, token, nullptr, 0);
    EXPECT_EQ(Sample(MySerial()).size(), 1u);
  });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "wanders");
  jobscope_trace_end(site, token, nullptr, 0);
}

// Not even on one that has no state yet.
TEST_F(OpenScopes, EndOwnDiscardsTheScopeOfAnotherThread) {
  const struct jobscope_trace_writer_table* const writer = jobscope_trace_writer();
  const uint32_t site = MovingSite();
  const uint64_t me = MySerial();
  const jobscope_token first = jobscope_trace_begin(site);
  const auto elsewhere =
      Record(kAllBits, [&] { EXPECT_EQ(writer->end_own(site, first, nullptr, 0), 0u); });
  EXPECT_TRUE(elsewhere.empty());
  EXPECT_TRUE(Sample(me).empty());
  const jobscope_token second = jobscope_trace_begin(site);
  std::thread([&] { EXPECT_EQ(writer->end_own(site, second, nullptr, 0), 0u); }).join();
  EXPECT_TRUE(Sample(me).empty());
}

TEST_F(OpenScopes, EndOwnRecordsTheScopeOfItsThread) {
  const struct jobscope_trace_writer_table* const writer = jobscope_trace_writer();
  const auto events = Record(kAllBits, [&] {
    const uint32_t site = MovingSite();
    const jobscope_token outer = writer->begin(site);
    const jobscope_token inner = writer->begin(site);
    const jobscope_arg arg = {JOBSCOPE_ARG_UINT64, 0, {7}};
    EXPECT_EQ(writer->end_own(site, inner, &arg, 1), 1u);
    EXPECT_EQ(writer->end_own(site, outer, nullptr, 0), 1u);
    EXPECT_TRUE(Sample(MySerial()).empty());
  });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].depth, 1u);
  ASSERT_EQ(events[0].args.size(), 1u);
  EXPECT_EQ(events[0].args[0].bits, 7u);
  EXPECT_EQ(events[1].depth, 0u);
}

// Samples taken while the stack changes at full speed are whole: the scopes nest as the code does.
TEST_F(OpenScopes, SamplesAreConsistent) {
  std::atomic<uint64_t> serial{0};
  std::atomic<bool> stop{false};
  std::thread thread([&] {
    serial.store(MySerial());
    for (int64_t number = 0; !stop.load(std::memory_order_relaxed); ++number) {
      JOBSCOPE_STEP("level 0", number);
      for (int i = 0; i < 3; ++i) {
        JOBSCOPE_SCOPE("level 1");
        JOBSCOPE_SCOPE("level 2");
      }
      JOBSCOPE_SCOPE("level 1");
      JOBSCOPE_STEP("level 2", number);
    }
  });
  while (serial.load() == 0) std::this_thread::yield();
  uint64_t samples = 0;
  for (int i = 0; i < 200000 || samples < 100; ++i) {
    const auto scopes = Sample(serial.load());
    if (scopes.empty()) continue;
    ++samples;
    for (size_t depth = 0; depth < scopes.size(); ++depth) {
      ASSERT_EQ(Name(scopes[depth].site), "level " + std::to_string(depth));
      if (depth > 0) {
        ASSERT_LE(scopes[depth - 1].begin_ticks, scopes[depth].begin_ticks);
      }
      if (depth == 2 && scopes[2].has_step_number != 0) {
        ASSERT_EQ(scopes[2].step_number, scopes[0].step_number);
      }
    }
  }
  stop.store(true);
  thread.join();
}

}  // namespace
}  // namespace jobscope::recorder_test
