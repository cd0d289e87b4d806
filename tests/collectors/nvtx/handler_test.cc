// SPDX-License-Identifier: Apache-2.0
//
// NVTX calls become events of the recorder, by the real tables and the real recorder.
#include "collectors/nvtx/handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectors/nvtx/abi.h"
#include "collectors/nvtx/ranges.h"
#include "jobscope/trace_c.h"
#include "tests/collectors/nvtx/handler_fixture.h"

namespace jobscope::nvtx_test {
namespace {

TEST_F(Handler, RangesNestAndReturnTheirDepth) {
  const auto events = Record(kOn, [] {
    EXPECT_EQ(Program::Push("outer"), 0);
    EXPECT_EQ(Program::Push("inner"), 1);
    EXPECT_EQ(Program::Push("innermost"), 2);
    EXPECT_EQ(Program::Pop(), 2);
    EXPECT_EQ(Program::Pop(), 1);
    EXPECT_EQ(Program::Push("second"), 1);
    EXPECT_EQ(Program::Pop(), 1);
    EXPECT_EQ(Program::Pop(), 0);
    EXPECT_EQ(Program::Pop(), abi::kNoTracking) << "nothing is open";
  });
  ASSERT_THAT(NamesOf(events), testing::ElementsAre("innermost", "inner", "second", "outer"));
  EXPECT_EQ(events[0].depth, 2u);
  EXPECT_EQ(events[3].depth, 0u);
  for (const auto& event : events) {
    EXPECT_EQ(event.kind, JOBSCOPE_KIND_SCOPE);
    EXPECT_EQ(event.role, JOBSCOPE_ROLE_SCOPE);
    EXPECT_EQ(event.bit, kOn);
    EXPECT_LE(events[3].begin, event.begin);
    EXPECT_GE(events[3].end, event.end);
  }
  const std::string file = FileOf(events[0]);
  EXPECT_EQ(PlaceOf(file).domain, "");
  EXPECT_EQ(Program::told_version, 3u);
}

TEST_F(Handler, NothingHappensWhileNothingIsRecorded) {
  const auto events = Record(0, [] {
    EXPECT_EQ(Program::Push("off"), abi::kNoTracking);
    EXPECT_EQ(Program::Pop(), abi::kNoTracking);
    EXPECT_EQ(Program::Start("off"), 0u);
    Program::End(0);
    Program::Mark("off");
  });
  EXPECT_THAT(events, testing::IsEmpty());
}

void SetRecording(bool on) {
  jobscope_trace_reader()->set_mask(JOBSCOPE_HOLDER_SESSION, on ? kOn : 0);
}

TEST_F(Handler, CaptureBeginsInsideOfARange) {
  const auto events = Record(0, [] {
    Program::Push("before");
    Program::Push("before, inner");
    SetRecording(true);
    EXPECT_EQ(Program::Push("recorded"), 0) << "counted since the capture began";
    EXPECT_EQ(Program::Pop(), 0);
    EXPECT_EQ(Program::Pop(), abi::kNoTracking);
    EXPECT_EQ(Program::Push("recorded, too"), 0);
    EXPECT_EQ(Program::Pop(), 0);
    EXPECT_EQ(Program::Pop(), abi::kNoTracking);
    SetRecording(false);
  });
  EXPECT_THAT(NamesOf(events), testing::ElementsAre("recorded", "recorded, too"));
}

TEST_F(Handler, CaptureEndsInsideOfARange) {
  const uint32_t tracking = nvtx::g_tracking;  // threads of other tests
  const auto events = Record(kOn, [] {
    EXPECT_EQ(Program::Push("recorded"), 0);
    SetRecording(false);
    EXPECT_EQ(Program::Push("after"), 1);
    EXPECT_EQ(Program::Push("after, inner"), 2);
    EXPECT_EQ(Program::Pop(), 2) << "not the recorded one";
    SetRecording(true);
    EXPECT_EQ(Program::Push("second capture"), 2);
    SetRecording(false);
    EXPECT_EQ(Program::Pop(), 2);
    EXPECT_EQ(Program::Pop(), 1);
    EXPECT_EQ(Program::Pop(), 0) << "recorded: it began while recording was on";
    EXPECT_EQ(Program::Pop(), abi::kNoTracking);
    EXPECT_EQ(Program::Push("idle"), abi::kNoTracking) << "counts no more";
    EXPECT_EQ(Program::Pop(), abi::kNoTracking);
  });
  EXPECT_THAT(NamesOf(events), testing::ElementsAre("second capture", "recorded"));
  EXPECT_EQ(nvtx::g_tracking.load(), tracking);
}

TEST_F(Handler, DomainsHaveStacksOfTheirOwn) {
  const void* const a = Program::CreateDomain("a");
  const void* const b = Program::CreateDomain("b");
  ASSERT_NE(a, nullptr);
  ASSERT_NE(a, b);
  const auto events = Record(kOn, [=] {
    const auto in_a = Message("in a"), in_b = Message("in b"), deeper = Message("deeper in a");
    EXPECT_EQ(Program::Push(a, &in_a), 0);
    EXPECT_EQ(Program::Push(b, &in_b), 0);
    EXPECT_EQ(Program::Push(a, &deeper), 1);
    EXPECT_EQ(Program::Push("default"), 0);
    EXPECT_EQ(Program::Pop(b), 0) << "under two ranges of other domains";
    EXPECT_EQ(Program::Pop(b), abi::kNoTracking);
    EXPECT_EQ(Program::Pop(a), 1);
    EXPECT_EQ(Program::Pop(nullptr), 0) << "the handle of the default domain";
    EXPECT_EQ(Program::Pop(a), 0);
  });
  EXPECT_THAT(NamesOf(events), testing::ElementsAre("in b", "deeper in a", "default", "in a"));
  EXPECT_EQ(PlaceOf(FileOf(events[0])).domain, "b");
}

TEST_F(Handler, UnitsShareDomainsAndStacks) {
  const void* const here = Program::CreateDomain("shared");
  const void* const there = Plugin::CreateDomain("shared");
  EXPECT_EQ(here, there);
  const auto events = Record(kOn, [=] {
    const auto message = Message("pushed here");
    EXPECT_EQ(Program::Push(here, &message), 0);
    EXPECT_EQ(Plugin::Pop(there), 0);
    EXPECT_EQ(Plugin::Push("plugin's"), 0);
    EXPECT_EQ(Plugin::Pop(), 0);
  });
  EXPECT_THAT(NamesOf(events), testing::ElementsAre("pushed here", "plugin's"));
}

TEST_F(Handler, EqualMessagesOfTwoDomainsAreTwoSites) {
  const void* const a = Program::CreateDomain("one");
  const void* const b = Program::CreateDomain("two");
  const auto events = Record(kOn, [=] {
    const auto message = Message("same");
    Program::Push(a, &message);
    Program::Pop(a);
    Program::Push(b, &message);
    Program::Pop(b);
    Program::Mark(a, &message);
  });
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(PlaceOf(FileOf(events[0])).domain, "one");
  EXPECT_EQ(PlaceOf(FileOf(events[1])).domain, "two");
  EXPECT_EQ(events[2].role, JOBSCOPE_ROLE_INSTANT) << "a mark is no range, whatever its name";
}

TEST_F(Handler, DestroyedDomainsStayUsable) {
  const void* const domain = Program::CreateDomain("short-lived");
  Program::DestroyDomain(domain);
  const auto events = Record(kOn, [=] {
    const auto message = Message("late");
    EXPECT_EQ(Program::Push(domain, &message), 0);
    EXPECT_EQ(Program::Pop(domain), 0);
  });
  EXPECT_EQ(PlaceOf(FileOf(events[0])).domain, "short-lived");
  EXPECT_EQ(Program::CreateDomain("short-lived"), domain);
}

TEST_F(Handler, XlaKeepsItsNamesForItsOwnProfiler) {
  EXPECT_EQ(Program::CreateDomain("TSL"), nullptr);
}

TEST_F(Handler, Marks) {
  const auto events = Record(kOn, [] {
    Program::Mark("here");
    auto attributes = Message("with payload");
    attributes.payload_type = abi::kPayloadInt32;
    attributes.payload.int32_value = 3;
    Program::Mark(nullptr, &attributes);
  });
  ASSERT_THAT(NamesOf(events), testing::ElementsAre("here", "with payload"));
  EXPECT_EQ(events[0].kind, JOBSCOPE_KIND_INSTANT);
  EXPECT_EQ(events[1].args.at(0).AsInt64(), 3);
}

TEST_F(Handler, StartAndEndOnTwoThreads) {
  uint64_t id = 0;
  const auto begun = Record(kOn, [&] {
    auto attributes = Message("request");
    attributes.payload_type = abi::kPayloadInt64;
    attributes.payload.int64_value = 17;
    id = Program::Start(nullptr, &attributes);
  });
  EXPECT_NE(id, 0u);
  // The recording in which it began is over: it is still recorded, as a scope is.
  const auto ended = Record(0, [&] { Plugin::End(id); });
  ASSERT_EQ(begun.size(), 1u);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(begun[0].kind, JOBSCOPE_KIND_ASYNC_BEGIN);
  EXPECT_EQ(ended[0].kind, JOBSCOPE_KIND_ASYNC_END);
  EXPECT_EQ(begun[0].args.at(0).bits, id);
  EXPECT_EQ(ended[0].args.at(0).bits, id);
  EXPECT_EQ(begun[0].args.at(1).AsInt64(), 17);
  EXPECT_EQ(begun[0].site, ended[0].site);
  EXPECT_THAT(begun[0].keys, testing::ElementsAre("id", "payload"));
}

TEST_F(Handler, IdsAreUnique) {
  std::set<uint64_t> ids;
  Recording recording(kOn);
  for (int i = 0; i < 1000; ++i) ids.insert(Program::Start("request"));
  ids.insert(jobscope_trace_next_id());
  EXPECT_EQ(ids.size(), 1001u);
}

TEST_F(Handler, ThreadNames) {
  std::string name;
  std::string other;
  std::thread thread([&] {
    Recording recording(kOn);
    const uint64_t serial = recorder_test::MySerial();
    Program::NameThread(static_cast<uint32_t>(gettid()), "loader");
    name = recorder_test::FindThread(serial).name;
    Program::NameThread(static_cast<uint32_t>(getpid()), "main thread, from another one");
    other = recorder_test::FindThread(serial).name;
  });
  thread.join();
  EXPECT_EQ(name, "loader");
  EXPECT_EQ(other, "loader");
}

// More than a thread keeps: they become marks, and the depths stay right.
TEST_F(Handler, RangesNestedTooDeep) {
  const auto events = Record(kOn, [] {
    const int count = nvtx::kMaxOpenRanges + 10;
    for (int i = 0; i < count; ++i) EXPECT_EQ(Program::Push("deep"), i);
    for (int i = count; i > 0; --i) EXPECT_EQ(Program::Pop(), i - 1);
    EXPECT_EQ(Program::Push("afterwards"), 0);
    EXPECT_EQ(Program::Pop(), 0);
  });
  ASSERT_EQ(events.size(), nvtx::kMaxOpenRanges + 11);
  EXPECT_EQ(events[0].kind, JOBSCOPE_KIND_INSTANT);
  EXPECT_EQ(events[9].kind, JOBSCOPE_KIND_INSTANT);
  EXPECT_EQ(events[10].kind, JOBSCOPE_KIND_SCOPE);
  EXPECT_EQ(events.back().name, "afterwards");
}

TEST_F(Handler, ThreadThatEndsInsideOfARange) {
  const uint32_t tracking = nvtx::g_tracking;  // threads of other tests
  const auto events = Record(kOn, [] {
    Program::Push("outer");
    Program::Push("inner");
  });
  // The recorder's own end of the thread may come first; it counts them then.
  EXPECT_LE(events.size(), 2u);
  EXPECT_EQ(nvtx::g_tracking.load(), tracking);
}

struct CallsWhenItGoes {
  ~CallsWhenItGoes() {
    Program::Push("late");
    Program::Pop();
    Program::Mark("late");
  }
};

TEST_F(Handler, CallsFromDestructorsOfAThread) {
  const uint32_t tracking = nvtx::g_tracking;  // threads of other tests
  Record(kOn, [] {
    static thread_local CallsWhenItGoes late;
    (void)late;
    Program::Push("in time");
    Program::Pop();
  });
  EXPECT_EQ(nvtx::g_tracking.load(), tracking);
}

TEST_F(Handler, ForkedChildRecordsNothing) {
  Recording recording(kOn);
  EXPECT_EQ(Program::Push("open at the fork"), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const struct jobscope_trace_reader* const reader = jobscope_trace_reader();
    jobscope_totals totals = {};
    const bool nothing_new = Program::Start("in the child") == 0;
    Program::Pop();
    Program::Push("in the child");
    Program::Pop();
    Program::Mark("in the child");
    reader->totals(&totals);
    _exit(nothing_new && totals.attempted_events == 0 && totals.no_ring_events == 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Program::Pop(), 0);
}

TEST_F(Handler, TablesOfAnOlderNvtx) {
  using Old = Unit<2>;
  Old::core_size = abi::kRangePop;  // no pop, and nothing behind it
  ASSERT_TRUE(Old::Attach(&Initialize));
  const auto events = Record(kOn, [] {
    Old::Mark("old");
    EXPECT_EQ(Old::Pop(), abi::kNoTracking) << "its slot was left alone";
  });
  EXPECT_THAT(NamesOf(events), testing::ElementsAre("old"));
}

TEST_F(Handler, WhatCannotBeAttached) {
  EXPECT_FALSE(nvtx::Attach(jobscope_trace_writer(), nullptr));
  EXPECT_FALSE(nvtx::Attach(nullptr, nullptr));
  const auto none = [](uint32_t) -> const void* { return nullptr; };
  EXPECT_FALSE(nvtx::Attach(jobscope_trace_writer(),
                            reinterpret_cast<void*>(static_cast<const void* (*)(uint32_t)>(none))));
  EXPECT_FALSE(nvtx::AttachExtension(jobscope_trace_writer(), nullptr));
  intptr_t slot = 0;
  abi::ExtensionSegment segment = {0, 1, &slot};
  abi::ExtensionModule counters = {3, sizeof(counters), 4, 1, 1, &segment, nullptr, nullptr};
  EXPECT_FALSE(nvtx::AttachExtension(jobscope_trace_writer(), &counters));
  EXPECT_EQ(slot, 0);
}

}  // namespace
}  // namespace jobscope::nvtx_test
