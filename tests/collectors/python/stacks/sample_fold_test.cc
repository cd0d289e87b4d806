// SPDX-License-Identifier: Apache-2.0
//
// Folds samples into spans; needs no Python.
#include "collectors/python/stacks/sample_fold.h"

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/xspace/assemble/assembler.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tensorflow/xplane.pb.h"
#include "tests/collectors/gated_sink.h"

namespace jobscope::python {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

// With the GIL's functions missing a table knows its two fixed names only: enough to tell frames
// apart.
constexpr uint32_t kA = CodeTable::kUnknown;
constexpr uint32_t kB = CodeTable::kMoreFrames;

struct Span {
  std::string thread, name;
  int64_t begin_ns, length_ns;
  uint64_t samples;
  bool operator==(const Span& other) const {
    return thread == other.thread && name == other.name && begin_ns == other.begin_ns &&
           length_ns == other.length_ns && samples == other.samples;
  }
};
void PrintTo(const Span& span, std::ostream* out) {
  *out << span.thread << " " << span.name << " at " << span.begin_ns << " for " << span.length_ns
       << ", " << span.samples << " samples";
}

struct StringSink : xspace::ByteSink {
  absl::Status Write(std::string_view bytes, bool /*stable*/) override {
    text.append(bytes);
    return absl::OkStatus();
  }
  std::string text;
};

class SampleFoldTest : public ::testing::Test {
 protected:
  SampleFoldTest() : names_(&sink_) {
    trace_.RequestCodeExtraIndex = [](void (*)(void*)) -> intptr_t { return -1; };
    codes_ = std::make_unique<CodeTable>(api_, trace_);
    lines_ =
        std::make_unique<PythonLines>(&sink_, &names_, codes_.get(), PythonLines::Kind::kSamples);
    // Ticks are nanoseconds.
    window_.map = TickMap().WithZero(1000);
    window_.start_ticks = 1000;
    fold_ = std::make_unique<SampleFold>(lines_.get(), window_);
  }

  static ThreadStack Stack(uint64_t ident, const std::vector<uint32_t>& codes) {
    ThreadStack stack;
    stack.ident = ident;
    stack.tid = static_cast<int64_t>(ident);
    stack.name = "t";
    for (const uint32_t code : codes) stack.frames.push_back({code, nullptr});
    return stack;
  }
  void Add(uint64_t ticks, std::vector<ThreadStack> stacks, std::vector<uint64_t> others = {}) {
    StackRound round;
    for (const ThreadStack& stack : stacks) round.idents.push_back(stack.ident);
    round.idents.insert(round.idents.end(), others.begin(), others.end());
    round.stacks = std::move(stacks);
    fold_->Add(ticks, round);
  }

  std::vector<Span> Finish(uint64_t end_ticks) {
    fold_->Finish(end_ticks);
    lines_->Flush();
    EXPECT_EQ(lines_->attempted(), lines_->events() + lines_->refused() + lines_->outside());
    const std::vector<xspace::ItemView> items = store_.Items();
    auto assembler = xspace::Assembler::Create(items, {});
    StringSink sink;
    EXPECT_TRUE(assembler->Write(0, &sink).ok());
    tensorflow::profiler::XSpace space;
    EXPECT_TRUE(space.ParseFromString(sink.text));
    std::vector<Span> spans;
    for (const auto& plane : space.planes()) {
      for (const auto& line : plane.lines()) {
        for (const auto& event : line.events()) {
          spans.push_back({line.name(), plane.event_metadata().at(event.metadata_id()).name(),
                           event.offset_ps() / 1000, event.duration_ps() / 1000,
                           event.stats(0).uint64_value()});
        }
      }
    }
    return spans;
  }

  const Api api_;
  TraceApi trace_;
  xspace::Store store_{16 << 20};
  GatedSink sink_{&store_};
  xspace::Names names_;
  std::unique_ptr<CodeTable> codes_;
  std::unique_ptr<PythonLines> lines_;
  TraceWindow window_;
  std::unique_ptr<SampleFold> fold_;
  const std::string a_ = "(further functions)";
  const std::string b_ = "(outer frames)";
  const std::string line_ = "t/7 (python samples)";
};

TEST_F(SampleFoldTest, WhatStaysIsOneSpan) {
  Add(1000, {Stack(7, {kA, kB})});
  Add(2000, {Stack(7, {kA, kB})});
  Add(3000, {Stack(7, {kA})});
  EXPECT_THAT(Finish(5000), ElementsAre(Span{line_, a_, 0, 4000, 3}, Span{line_, b_, 0, 2000, 2}));
}

TEST_F(SampleFoldTest, TheSameFunctionUnderAnotherCallerIsAnotherSpan) {
  Add(1000, {Stack(7, {kA, kA})});
  Add(2000, {Stack(7, {kB, kA})});
  EXPECT_THAT(Finish(3000),
              ElementsAre(Span{line_, a_, 0, 1000, 1}, Span{line_, a_, 0, 1000, 1},
                          Span{line_, b_, 1000, 1000, 1}, Span{line_, a_, 1000, 1000, 1}));
}

TEST_F(SampleFoldTest, AThreadThatWasNotLookedAtIsWhereItWas) {
  Add(1000, {Stack(7, {kA})});
  Add(2000, {}, {7});
  Add(3000, {Stack(7, {kA})});
  EXPECT_THAT(Finish(4000), ElementsAre(Span{line_, a_, 0, 3000, 2}));
}

TEST_F(SampleFoldTest, AThreadThatIsGoneHasEnded) {
  Add(1000, {Stack(7, {kA}), Stack(8, {kA})});
  Add(2000, {Stack(8, {kA})});
  EXPECT_THAT(Finish(5000), UnorderedElementsAre(Span{line_, a_, 0, 1000, 1},
                                                 Span{"t/8 (python samples)", a_, 0, 4000, 2}));
}

TEST_F(SampleFoldTest, ANumberThatIsUsedAgainIsAnotherThread) {
  Add(1000, {Stack(7, {kA})});
  ThreadStack other = Stack(7, {kA});
  other.tid = 9;
  Add(2000, {other});
  EXPECT_THAT(Finish(3000), UnorderedElementsAre(Span{line_, a_, 0, 1000, 1},
                                                 Span{"t/9 (python samples)", a_, 1000, 1000, 1}));
}

TEST_F(SampleFoldTest, SamplesBeforeTheWindowCountFromItsBegin) {
  Add(400, {Stack(7, {kA})});
  EXPECT_THAT(Finish(2000), ElementsAre(Span{line_, a_, 0, 1000, 1}));
}

// The end becomes known late: what the last sample has ended lies within what goes on.
TEST_F(SampleFoldTest, ASampleAfterTheEndIsWithinTheSpansAroundIt) {
  Add(1000, {Stack(7, {kA, kB})});
  Add(3000, {Stack(7, {kA})});
  EXPECT_THAT(Finish(2500), ElementsAre(Span{line_, a_, 0, 2000, 2}, Span{line_, b_, 0, 2000, 1}));
}

TEST_F(SampleFoldTest, AnEndThatWasPlannedHolds) {
  window_.end_ticks = 2500;
  fold_ = std::make_unique<SampleFold>(lines_.get(), window_);
  Add(1000, {Stack(7, {kA})});
  Add(2600, {Stack(7, {kB})});
  EXPECT_THAT(Finish(9000), ElementsAre(Span{line_, a_, 0, 1500, 1}));
}

// The store is full for a while.
TEST_F(SampleFoldTest, ALineWithoutRoomLosesItsSpansUntilThereIsRoom) {
  sink_.refused = {xspace::ItemKind::kLine};
  Add(1000, {Stack(7, {kA})});
  Add(2000, {Stack(7, {kB})});
  sink_.refused.clear();
  EXPECT_THAT(Finish(3000), ElementsAre(Span{line_, b_, 1000, 1000, 1}));
  EXPECT_EQ(lines_->refused(), 1u);
}

TEST_F(SampleFoldTest, APlaneToo) {
  xspace::Names names(&sink_);
  sink_.refused = {xspace::ItemKind::kPlane};
  PythonLines lines(&sink_, &names, codes_.get(), PythonLines::Kind::kCalls);
  lines.Add(7, "t", {1000, 2000, kA, 0, 0, false}, window_);
  sink_.refused.clear();
  lines.Add(7, "t", {2000, 3000, kA, 0, 0, false}, window_);
  lines.Flush();
  EXPECT_EQ(lines.refused(), 1u);
  EXPECT_EQ(lines.events(), 1u);
}

}  // namespace
}  // namespace jobscope::python
