// SPDX-License-Identifier: Apache-2.0
//
// Each part of <jobscope/trace.h>, seen as records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "jobscope/trace.h"
#include "jobscope/trace_c.h"
#include "tests/collectors/host/recorder/recorded.h"

namespace jobscope::recorder_test {
namespace {

using testing::ElementsAre;

enum class Colour : int8_t { kRed = -3 };

TEST(TraceApi, ScopeIsOneRecordWithItsSite) {
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [] { JOBSCOPE_SCOPE("load_batch"); });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].name, "load_batch");
  EXPECT_EQ(events[0].kind, JOBSCOPE_KIND_SCOPE);
  EXPECT_EQ(events[0].role, JOBSCOPE_ROLE_SCOPE);
  EXPECT_EQ(events[0].bit, JOBSCOPE_BIT_LEVEL1);
  EXPECT_EQ(events[0].depth, 0u);
  EXPECT_TRUE(events[0].args.empty());
  EXPECT_LT(events[0].begin, events[0].end);
  jobscope_site_info info;
  ASSERT_EQ(jobscope_trace_reader()->site(events[0].site, &info), 0);
  EXPECT_THAT(info.file, testing::EndsWith("tests/collectors/host/recorder/trace_api_test.cc"));
  EXPECT_STREQ(info.category, "");
  EXPECT_GT(info.line, 0u);
}

TEST(TraceApi, ScopesNest) {
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [] {
    JOBSCOPE_SCOPE("outer");
    for (int i = 0; i < 2; ++i) {
      JOBSCOPE_SCOPE("inner");
      JOBSCOPE_INSTANT("point");
    }
  });
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].name, "point");
  EXPECT_EQ(events[0].depth, 2u);
  EXPECT_EQ(events[1].name, "inner");
  EXPECT_EQ(events[1].depth, 1u);
  EXPECT_EQ(events[3].site, events[1].site);
  EXPECT_EQ(events[4].name, "outer");
  EXPECT_EQ(events[4].depth, 0u);
  EXPECT_LE(events[4].begin, events[1].begin);
  EXPECT_GE(events[4].end, events[3].end);
}

TEST(TraceApi, ArgumentsOfEveryType) {
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [] {
    const std::string text = "a std::string that does not fit into one continuation";
    JOBSCOPE_SCOPE("typed", "int", -5, "unsigned", 7u, "double", 2.5f, "bool", true, "enum",
                   Colour::kRed, "literal", "lit", "string", text, "view",
                   std::string_view("view"));
  });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_THAT(events[0].keys, ElementsAre("int", "unsigned", "double", "bool", "enum", "literal",
                                          "string", "view"));
  ASSERT_EQ(events[0].args.size(), 8u);
  EXPECT_EQ(events[0].args[0].type, JOBSCOPE_ARG_INT64);
  EXPECT_EQ(events[0].args[0].AsInt64(), -5);
  EXPECT_EQ(events[0].args[1].type, JOBSCOPE_ARG_UINT64);
  EXPECT_EQ(events[0].args[1].bits, 7u);
  EXPECT_EQ(events[0].args[2].type, JOBSCOPE_ARG_DOUBLE);
  EXPECT_EQ(events[0].args[2].AsDouble(), 2.5);
  EXPECT_EQ(events[0].args[3].bits, 1u);
  EXPECT_EQ(events[0].args[4].AsInt64(), -3);
  EXPECT_EQ(events[0].args[5].type, JOBSCOPE_ARG_STRING);
  EXPECT_EQ(events[0].args[5].text, "lit");
  EXPECT_EQ(events[0].args[6].text, "a std::string that does not fit into one continuation");
  EXPECT_EQ(events[0].args[7].text, "view");
  EXPECT_FALSE(events[0].cut);
}

TEST(TraceApi, StringsOfEachLength) {
  for (size_t length : {0u, 1u, 23u, 24u, 25u, 48u, 119u, 120u, 121u, 500u}) {
    std::string text;
    for (size_t i = 0; i < length; ++i) text.push_back(static_cast<char>('a' + i % 26));
    const auto events =
        Record(JOBSCOPE_BIT_LEVEL1, [&] { JOBSCOPE_INSTANT("sized", "text", text, "after", 1); });
    ASSERT_EQ(events.size(), 1u);
    ASSERT_EQ(events[0].args.size(), 2u) << length;
    EXPECT_EQ(events[0].args[0].type, JOBSCOPE_ARG_STRING);
    EXPECT_EQ(events[0].args[0].text, text.substr(0, 120));
    EXPECT_EQ(events[0].args[1].AsInt64(), 1);
    EXPECT_EQ(events[0].cut, length > 120) << length;

    const auto again =
        Record(JOBSCOPE_BIT_LEVEL1, [&] { JOBSCOPE_SCOPE("sized", "text", text.c_str()); });
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].args[0].text, text.substr(0, 120));
    EXPECT_EQ(again[0].cut, length > 120) << length;
  }
}

TEST(TraceApi, TheLargestEventIsWhole) {
  const std::string text(200, 'x');
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [&] {
    JOBSCOPE_SCOPE("largest", "a", text, "b", text, "c", text, "d", text, "e", text, "f", text, "g",
                   text, "h", text);
  });
  ASSERT_EQ(events.size(), 1u);
  ASSERT_EQ(events[0].args.size(), 8u);
  for (const Value& value : events[0].args) EXPECT_EQ(value.text, std::string(120, 'x'));
  EXPECT_TRUE(events[0].cut);
}

TEST(TraceApi, StringsAreCopiedWhenTheScopeBegins) {
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [] {
    std::string text = "before";
    JOBSCOPE_SCOPE("copied", "text", text, "temporary", std::string("gone at once"));
    text = "after!";
  });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].args[0].text, "before");
  EXPECT_EQ(events[0].args[1].text, "gone at once");
}

TEST(TraceApi, NullStringIsEmpty) {
  const char* null = nullptr;
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [&] { JOBSCOPE_SCOPE("null", "text", null); });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].args[0].text, "");
}

TEST(TraceApi, LevelsHaveTheirBits) {
  const auto body = [] {
    JOBSCOPE_SCOPE("one");
    JOBSCOPE_SCOPE_AT(1, "also one");
    JOBSCOPE_SCOPE_AT(2, "two", "k", 2);
    JOBSCOPE_SCOPE_AT(3, "three");
    JOBSCOPE_SCOPE_COARSE("coarse");
    JOBSCOPE_INPUT_WAIT("wait");
  };
  const auto names = [&](uint32_t bits) {
    std::vector<std::string> found;
    for (const Event& event : Record(bits, body)) found.push_back(event.name);
    return found;
  };
  EXPECT_THAT(names(0), ElementsAre());
  EXPECT_THAT(names(JOBSCOPE_BIT_LEVEL1), ElementsAre("also one", "one"));
  EXPECT_THAT(names(JOBSCOPE_BIT_LEVEL2), ElementsAre("two"));
  EXPECT_THAT(names(JOBSCOPE_BIT_LEVEL3), ElementsAre("three"));
  EXPECT_THAT(names(JOBSCOPE_BIT_COARSE), ElementsAre("coarse"));
  EXPECT_THAT(names(JOBSCOPE_BIT_INPUT_WAIT), ElementsAre("wait"));
  const auto events = Record(JOBSCOPE_BIT_INPUT_WAIT, body);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].role, JOBSCOPE_ROLE_INPUT_WAIT);
}

TEST(TraceApi, ArgumentsOfAnInactiveSiteAreNotEvaluated) {
  int evaluated = 0;
  const auto body = [&] {
    JOBSCOPE_SCOPE("lazy", "n", ++evaluated);
    JOBSCOPE_INSTANT("lazy", "n", ++evaluated);
    JOBSCOPE_COUNTER("lazy", ++evaluated);
    JOBSCOPE_STEP("lazy", ++evaluated);
  };
  EXPECT_TRUE(Record(0, body).empty());
  EXPECT_EQ(evaluated, 0);
  EXPECT_EQ(Record(kAllBits, body).size(), 5u);
  EXPECT_EQ(evaluated, 4);
}

TEST(TraceApi, StepIsTwoRecords) {
  const auto events = Record(JOBSCOPE_BIT_STEP, [] { JOBSCOPE_STEP("train", 41); });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, JOBSCOPE_KIND_STEP_BEGIN);
  EXPECT_EQ(events[0].begin, events[0].end);
  EXPECT_EQ(events[1].kind, JOBSCOPE_KIND_STEP);
  EXPECT_EQ(events[1].role, JOBSCOPE_ROLE_STEP);
  EXPECT_EQ(events[1].begin, events[0].begin);
  for (const Event& event : events) {
    EXPECT_EQ(event.name, "train");
    ASSERT_EQ(event.args.size(), 1u);
    EXPECT_EQ(event.args[0].AsInt64(), 41);
  }
}

TEST(TraceApi, CounterAndInstant) {
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [] {
    JOBSCOPE_COUNTER("loss", 0.25);
    JOBSCOPE_COUNTER("queue", size_t{9});
    JOBSCOPE_INSTANT("checkpoint", "path", "/x", "step", int64_t{3});
  });
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, JOBSCOPE_KIND_COUNTER);
  EXPECT_EQ(events[0].role, JOBSCOPE_ROLE_COUNTER);
  EXPECT_EQ(events[0].args[0].AsDouble(), 0.25);
  EXPECT_EQ(events[1].args[0].bits, 9u);
  EXPECT_TRUE(events[1].keys.empty());
  EXPECT_EQ(events[2].kind, JOBSCOPE_KIND_INSTANT);
  EXPECT_EQ(events[2].begin, events[2].end);
  EXPECT_EQ(events[2].args[0].text, "/x");
  EXPECT_EQ(events[2].args[1].AsInt64(), 3);
}

TEST(TraceApi, AsyncPairsAcrossThreadsByIdAndSite) {
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [] {
    const std::string name = "request 7";
    const AsyncId first = AsyncBegin(name.c_str());
    const AsyncId second = AsyncBegin("other");
    EXPECT_NE(first.value, 0u);
    EXPECT_NE(first.value, second.value);
    uint64_t there = 0;
    std::thread([&] {
      AsyncEnd(first);
      there = MySerial();
    }).join();
    jobscope_cursor cursor = {0, 0};
    const auto ended = ReadAll(there, &cursor).events;
    ASSERT_EQ(ended.size(), 1u);
    EXPECT_EQ(ended[0].kind, JOBSCOPE_KIND_ASYNC_END);
    EXPECT_EQ(ended[0].name, "request 7");
    EXPECT_EQ(ended[0].args[0].bits, first.value);
  });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, JOBSCOPE_KIND_ASYNC_BEGIN);
  EXPECT_EQ(events[0].role, JOBSCOPE_ROLE_ASYNC);
  EXPECT_EQ(events[0].name, "request 7");
  EXPECT_NE(events[0].site, events[1].site);
}

TEST(TraceApi, FlowCarriesItsId) {
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [] {
    const Flow flow = FlowOut();
    FlowIn(flow);
  });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, JOBSCOPE_KIND_FLOW_OUT);
  EXPECT_EQ(events[1].kind, JOBSCOPE_KIND_FLOW_IN);
  EXPECT_EQ(events[0].role, JOBSCOPE_ROLE_FLOW);
  EXPECT_EQ(events[0].args[0].bits, events[1].args[0].bits);
  EXPECT_NE(events[0].args[0].bits, 0u);
}

TEST(TraceApi, OffMeansIdsOfZeroAndNothingAtTheirEnds) {
  EXPECT_TRUE(Record(0, [] {
                const AsyncId id = AsyncBegin("never");
                const Flow flow = FlowOut();
                EXPECT_EQ(id.value, 0u);
                EXPECT_EQ(flow.value, 0u);
                jobscope_trace_reader()->set_mask(JOBSCOPE_HOLDER_SESSION, kAllBits);
                AsyncEnd(id);
                FlowIn(flow);
              }).empty());
}

TEST(TraceApi, AScopeThatOutlivesItsBitIsRecorded) {
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [] {
    JOBSCOPE_SCOPE("outlives");
    jobscope_trace_reader()->set_mask(JOBSCOPE_HOLDER_SESSION, 0);
  });
  ASSERT_EQ(events.size(), 1u);
}

template <typename T>
void Templated() {
  JOBSCOPE_SCOPE("templated", "size", sizeof(T));
}

TEST(TraceApi, TemplatesShareTheSiteOfTheirLine) {
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [] {
    Templated<char>();
    Templated<int>();
  });
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].site, events[1].site);
  EXPECT_EQ(events[1].args[0].bits, sizeof(int));
}

TEST(TraceApi, ThreadNames) {
  Recording recording(JOBSCOPE_BIT_LEVEL1);
  uint64_t early = 0, late = 0, unnamed = 0, longest = 0;
  std::thread([&] {
    SetThreadName("named before its first record");
    early = MySerial();
  }).join();
  std::thread([&] {
    late = MySerial();
    SetThreadName("first");
    SetThreadName("second");
  }).join();
  std::thread([&] {
    pthread_setname_np(pthread_self(), "os-name");
    unnamed = MySerial();
  }).join();
  std::thread([&] {
    SetThreadName(std::string(100, 'n').c_str());
    longest = MySerial();
  }).join();
  EXPECT_STREQ(FindThread(early).name, "named before its first record");
  EXPECT_STREQ(FindThread(late).name, "second");
  EXPECT_STREQ(FindThread(unnamed).name, "os-name");
  EXPECT_EQ(std::string(FindThread(longest).name), std::string(63, 'n'));
}

TEST(TraceApi, NamesOfThreadsThatNeverRecordedAreGivenBack) {
  jobscope_totals before;
  jobscope_trace_reader()->totals(&before);
  // Far more than there are entries for such names.
  for (int i = 0; i < 5000; ++i) {
    std::thread([] { SetThreadName("never records"); }).join();
  }
  jobscope_totals after;
  jobscope_trace_reader()->totals(&after);
  EXPECT_EQ(after.dictionary_full, before.dictionary_full);
}

// The thread keeps the OS's name, and nothing is said to be missing.
TEST(TraceApi, ANameBeyondTheRoomForNamesOfThreadsThatHaveNotRecordedIsNoLoss) {
  jobscope_totals before;
  jobscope_trace_reader()->totals(&before);
  std::promise<void> leave;
  std::shared_future<void> left = leave.get_future().share();
  std::vector<std::thread> threads;
  for (int i = 0; i < 1100; ++i) {  // there is room for 1,024
    std::promise<void> named;
    threads.emplace_back([&named, left] {
      SetThreadName("has not recorded");
      named.set_value();
      left.wait();
    });
    named.get_future().wait();
  }
  uint64_t last = 0;
  std::thread([&] {
    pthread_setname_np(pthread_self(), "os-name");
    SetThreadName("finds no room");
    last = MySerial();
  }).join();
  leave.set_value();
  for (std::thread& thread : threads) thread.join();
  EXPECT_STREQ(FindThread(last).name, "os-name");
  jobscope_totals after;
  jobscope_trace_reader()->totals(&after);
  EXPECT_EQ(after.dictionary_full, before.dictionary_full);
}

TEST(TraceApi, PlainC) {
  const char* keys[] = {"rows", "table"};
  const uint32_t site = jobscope_trace_site("query", "sql", "script.py", 12, JOBSCOPE_BIT_LEVEL2,
                                            JOBSCOPE_ROLE_SCOPE, keys, 2);
  EXPECT_EQ(site, jobscope_trace_site("query", "sql", "script.py", 12, JOBSCOPE_BIT_LEVEL2,
                                      JOBSCOPE_ROLE_SCOPE, keys, 2));
  EXPECT_NE(site, jobscope_trace_site("query", "sql", "script.py", 13, JOBSCOPE_BIT_LEVEL2,
                                      JOBSCOPE_ROLE_SCOPE, keys, 2));
  const uint32_t name = jobscope_trace_intern("orders and more", 6);
  EXPECT_EQ(name, jobscope_trace_intern("orders", 6));
  EXPECT_STREQ(jobscope_trace_reader()->name(name), "orders");
  EXPECT_EQ(jobscope_trace_reader()->name(0), nullptr);
  EXPECT_EQ(jobscope_trace_reader()->name(4000), nullptr);
  const auto events = Record(JOBSCOPE_BIT_LEVEL2, [&] {
    EXPECT_EQ(jobscope_trace_enabled(JOBSCOPE_BIT_LEVEL1), 0u);
    ASSERT_NE(jobscope_trace_enabled(JOBSCOPE_BIT_LEVEL2), 0u);
    const jobscope_token token = jobscope_trace_begin(site);
    jobscope_arg args[2] = {};
    args[0].type = JOBSCOPE_ARG_INT64;
    args[0].value.int64_value = 5;
    args[1].type = JOBSCOPE_ARG_NAME;
    args[1].value.uint64_value = name;
    jobscope_trace_end(site, token, args, 2);
    jobscope_trace_end(site, jobscope_token{0, 0}, nullptr, 0);
  });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].name, "query");
  EXPECT_THAT(events[0].keys, ElementsAre("rows", "table"));
  EXPECT_EQ(events[0].args[1].type, JOBSCOPE_ARG_NAME);
  EXPECT_EQ(events[0].args[1].bits, name);
}

TEST(TraceApi, MoreThanEightArgumentsAreCutAndSaidToBe) {
  const uint32_t site = jobscope_trace_site("nine", nullptr, nullptr, 0, JOBSCOPE_BIT_LEVEL1,
                                            JOBSCOPE_ROLE_INSTANT, nullptr, 0);
  const auto events = Record(JOBSCOPE_BIT_LEVEL1, [&] {
    jobscope_arg args[9] = {};
    for (jobscope_arg& arg : args) arg.type = JOBSCOPE_ARG_INT64;
    jobscope_trace_event(site, JOBSCOPE_KIND_INSTANT, args, 9);
  });
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].args.size(), 8u);
  EXPECT_TRUE(events[0].cut);
}

}  // namespace
}  // namespace jobscope::recorder_test
