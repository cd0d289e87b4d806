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

TEST(HostLineTest, ScopesOfTheProgramMayWaitAndOperatorsWork) {
  NameTable names;
  HostLine line(&names);
  int64_t begin_ns = 0;
  const auto may_wait = [&](const char* name, EventKind kind) {
    HostEvent event = Event(names.Intern(name, kind, {}), begin_ns, begin_ns + 2000 * kUs);
    event.kind = kind;
    begin_ns = event.end_ns;
    EXPECT_TRUE(line.Add(event));
    EXPECT_TRUE(line.Add(Event(event.name, begin_ns, begin_ns)));  // ends the one before
    return line.times().busy.back().may_wait;
  };
  EXPECT_TRUE(may_wait("finish_grads", EventKind::kScope));
  EXPECT_FALSE(may_wait("aten::mm", EventKind::kScope));
  EXPECT_FALSE(may_wait("gc", EventKind::kGarbageCollection));
}

// Each step, and each compilation, has all of the open events around it: a search through them
// would take minutes.
class DeepHostLineTest : public ::testing::Test {
 protected:
  static constexpr int64_t kEvents = 600'000;

  // Opens events that end behind all others.
  void Open(const std::string& name) {
    const uint32_t index = names_.Intern(name, EventKind::kScope, {});
    for (int64_t i = 0; i < kEvents; ++i) {
      EXPECT_TRUE(line_.Add(Event(index, 0, 1'000'000 * kUs)));
    }
  }

  NameTable names_;
  HostLine line_{&names_};
};

TEST_F(DeepHostLineTest, StepsInDeeplyNestedScopes) {
  Open("outer");
  const uint32_t train = names_.Intern("train", EventKind::kScope, {});
  for (int64_t i = 0; i < kEvents; ++i)
    EXPECT_TRUE(line_.Add(Step(train, i, i * kUs, i * kUs + 900)));
  line_.Finish();
  EXPECT_EQ(line_.steps().size(), static_cast<size_t>(kEvents));
  EXPECT_TRUE(line_.times().host.empty());  // scopes around steps are no work
}

TEST_F(DeepHostLineTest, CompilationsInDeeplyNestedFrames) {
  const uint32_t update = names_.Intern("update", EventKind::kScope, {});
  EXPECT_TRUE(line_.Add(Event(update, 0, 1'000'000 * kUs)));
  Open("$frame.py:1 call");
  HostEvent compilation = Event(names_.Intern("compile", EventKind::kCompilation, {}), 0, 0);
  compilation.kind = EventKind::kCompilation;
  for (int64_t i = 0; i < kEvents; ++i) {
    compilation.begin_ns = i * kUs;
    compilation.end_ns = i * kUs + 900;
    EXPECT_TRUE(line_.Add(compilation));
  }
  line_.Finish();
  EXPECT_EQ(names_[names_.Intern("compile of update", EventKind::kCompilation, {})].count,
            static_cast<uint64_t>(kEvents));
}

// A frame does not name a compilation with a scope on the other side of a step.
// Inferred steps run from hook to hook, and the scope around a hook ends after it.
TEST(HostLineTest, AStepThatBeginsInAScopeIsWhole) {
  NameTable names;
  HostLine line(&names);
  const uint32_t optimizer = names.Intern("optimizer", EventKind::kScope, {});
  const uint32_t train = names.Intern("train", EventKind::kScope, {});
  EXPECT_TRUE(line.Add(Event(optimizer, 0, 100)));
  for (int i = 0; i < 3; ++i) {
    const int64_t begin_ns = 100 * i;
    EXPECT_TRUE(line.Add(Step(train, i, begin_ns + 90, begin_ns + 190)));
    EXPECT_TRUE(line.Add(Event(optimizer, begin_ns + 150, begin_ns + 200)));
  }
  line.Finish();
  ASSERT_EQ(line.steps().size(), 3u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(line.steps()[static_cast<size_t>(i)].span.begin_ns, 100 * i + 90);
    EXPECT_EQ(line.steps()[static_cast<size_t>(i)].span.end_ns, 100 * i + 190);
    EXPECT_EQ(line.steps()[static_cast<size_t>(i)].top_name, optimizer);
  }
}

// A scope around steps stays whole.
TEST(HostLineTest, AScopeAroundAStepIsNotCut) {
  NameTable names;
  HostLine line(&names);
  const uint32_t epoch = names.Intern("epoch", EventKind::kScope, {});
  const uint32_t train = names.Intern("train", EventKind::kScope, {});
  EXPECT_TRUE(line.Add(Event(epoch, 0, 1000)));
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(line.Add(Step(train, i, 100 * i, 100 * i + 100)));
  }
  line.Finish();
  EXPECT_EQ(line.steps().size(), 10u);
  EXPECT_EQ(names[epoch].total_ns, 1000);
}

TEST(HostLineTest, ACompilationIsNamedWithAScopeOfItsStep) {
  NameTable names;
  HostLine line(&names);
  const auto scope = [&](const char* name) { return names.Intern(name, EventKind::kScope, {}); };
  HostEvent compilation = Event(names.Intern("compile", EventKind::kCompilation, {}), 0, 0);
  compilation.kind = EventKind::kCompilation;
  const auto compile = [&](int64_t begin_ns) {
    compilation.begin_ns = begin_ns;
    compilation.end_ns = begin_ns + 1;
    EXPECT_TRUE(line.Add(compilation));
  };
  EXPECT_TRUE(line.Add(Event(scope("main"), 0, 100)));
  EXPECT_TRUE(line.Add(Step(scope("train"), 1, 10, 20)));
  EXPECT_TRUE(line.Add(Event(scope("$frame"), 11, 20)));
  compile(12);
  EXPECT_TRUE(line.Add(Event(scope("$frame"), 30, 40)));
  compile(31);
  EXPECT_TRUE(line.Add(Event(scope("update"), 32, 40)));
  EXPECT_TRUE(line.Add(Event(scope("$frame"), 33, 40)));
  compile(34);
  line.Finish();
  const size_t known = names.size();
  EXPECT_EQ(names[scope("compile of update")].count, 1u);
  EXPECT_EQ(names[scope("compile")].count, 3u);
  EXPECT_EQ(names.size(), known);  // no "compile of main"
}

}  // namespace
}  // namespace jobscope::analysis
