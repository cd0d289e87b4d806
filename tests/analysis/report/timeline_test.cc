// SPDX-License-Identifier: Apache-2.0
//
// Timelines of single steps, from files to HTML.
#include "analysis/report/timeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "analysis/output/report_html.h"
#include "analysis/trace/timeline_reader.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TimelineBlock Block(int64_t begin_ns, int64_t end_ns, uint32_t line = 0) {
  TimelineBlock block;
  block.span = {begin_ns, end_ns};
  block.line = line;
  return block;
}

TEST(TimelineRowsTest, WhatOverlapsStandsInRowsOfItsOwn) {
  EXPECT_THAT(RowsOf({Block(0, 100), Block(10, 50), Block(20, 30), Block(50, 60), Block(100, 110)}),
              ElementsAre(0, 1, 2, 1, 0));
  EXPECT_THAT(RowsOf({Block(0, 100, 0), Block(10, 50, 1), Block(20, 60, 1)}), ElementsAre(0, 0, 1));
}

class TimelineTest : public RunFixture {
 protected:
  Digests DigestsOf(const std::string& directory) {
    absl::StatusOr<Digests> digests = ReadDigests(directory);
    EXPECT_TRUE(digests.ok()) << digests.status();
    return digests.ok() ? *std::move(digests) : Digests();
  }
};

// Step 117 is slow, rank 2 is the straggler. The plane of the collectives stands first in the
// trace.
TEST_F(TimelineTest, TheSlowestTheMedianAndTheStragglersStepAreShownOfAllWorkers) {
  AddRanks(
      4, 60, [](int rank, int) { return rank == 2 ? 30.0 : 5.0; },
      [](int rank, int step) {
        return step == 17 ? 200.0 : rank == 2 && step == 31 ? 65.0 : 50.0;
      });
  WriteManifest();
  const Digests digests = DigestsOf(directory_.path());
  const Report report = Reduce(digests);
  ASSERT_GE(report.timeline.size(), 2u);
  const ShownStep& slowest = report.timeline[0];
  EXPECT_EQ(slowest.number, 117);
  EXPECT_THAT(slowest.roles, ::testing::Contains("the slowest step"));
  EXPECT_NEAR(slowest.ms, 238, 0.001);
  EXPECT_TRUE(slowest.common_clock);
  ASSERT_EQ(slowest.workers.size(), 4u);
  for (const ShownWorker& worker : slowest.workers) {
    ASSERT_EQ(worker.lines.size(), 2u);
    EXPECT_EQ(*worker.lines[1].name, "thread");
    const std::vector<ShownBlock>& blocks = worker.lines[1].blocks;
    ASSERT_EQ(blocks.size(), 3u);
    EXPECT_EQ(blocks[0].what, kStepItself);
    EXPECT_EQ(*blocks[1].name, "next_batch");
    EXPECT_EQ(blocks[1].what, Index(StepClass::kInput));
    EXPECT_EQ(blocks[1].span.begin_ns, worker.account.begin_ns);
    EXPECT_NEAR(static_cast<double>(blocks[1].span.length_ns()), worker.worker == 2 ? 30e6 : 5e6,
                1);
    EXPECT_EQ(*blocks[2].name, "forward");
    EXPECT_NEAR(static_cast<double>(blocks[2].span.length_ns()), 200e6, 1);
    EXPECT_EQ(*worker.lines[0].blocks.at(0).name, "gloo:all_reduce");
    EXPECT_EQ(worker.left_out, 0u);
  }
  bool median = false;
  for (const ShownStep& step : report.timeline) {
    EXPECT_TRUE(step.without.empty()) << step.number;
    for (const std::string& role : step.roles) {
      if (role == "a median step") {
        median = true;
        EXPECT_NEAR(step.ms, 88, 0.001);
      }
    }
  }
  EXPECT_TRUE(median);
}

// Of four digests one alone has its events.
TEST_F(TimelineTest, AStepThatMostDigestsLackIsNotTheOneShown) {
  AddRanks(
      4, 60, [](int, int) { return 5.0; },
      [](int, int step) { return step == 17   ? 200.0
                                 : step == 31 ? 65.0
                                              : 50.0; });
  WriteManifest();
  Digests digests = DigestsOf(directory_.path());
  for (const size_t w : {0, 1, 2}) {
    auto* steps = digests.workers.at(w).mutable_timeline()->mutable_steps();
    for (int i = 0; i < steps->size(); ++i) {
      if (steps->Get(i).step() != 17) continue;
      steps->DeleteSubrange(i, 1);
      break;
    }
  }
  const Report report = Reduce(digests);
  ASSERT_FALSE(report.timeline.empty());
  EXPECT_EQ(report.timeline[0].number, 131);
  EXPECT_THAT(report.timeline[0].roles, ElementsAre("the slowest step with a timeline"));
}

// Ranks number their steps differently: the verdict's number is the blamed rank's.
TEST_F(TimelineTest, TheStepOfTheVerdictIsThatOfItsWorker) {
  AddRanks(
      4, 40, [](int, int) { return 5.0; },
      [](int rank, int step) { return rank == 2 && step == 17 ? 950.0 : 50.0; },
      /*number_of_rank=*/1000);
  WriteManifest();
  const Report report = Reduce(DigestsOf(directory_.path()));
  ASSERT_EQ(report.verdict.single_step, 2117);
  size_t costly = 0;
  for (const ShownStep& step : report.timeline) {
    for (const std::string& role : step.roles) {
      if (role != "where the verdict costs most") continue;
      ++costly;
      EXPECT_EQ(step.number, 117);
      EXPECT_NEAR(step.ms, 963, 1);
    }
  }
  EXPECT_EQ(costly, 1u);
}

TEST_F(TimelineTest, DigestsGiveTheSamePageToTheByte) {
  AddRanks(
      8, 200, [](int rank, int step) { return rank == 5 ? 30.0 : 5.0 + step % 7; },
      [](int, int) { return 50.0; });
  WriteManifest();
  const Digests direct = DigestsOf(directory_.path());
  const TemporaryDirectory written;
  ASSERT_TRUE(WriteDigests(direct, written.path()).ok());
  const Digests reread = DigestsOf(written.path());
  const std::string page = ReportHtml(Reduce(direct));
  EXPECT_THAT(page, HasSubstr("<figure class=timeline"));
  EXPECT_EQ(page, ReportHtml(Reduce(reread)));
}

TEST_F(TimelineTest, ManyEventsAreFewBlocks) {
  TraceFile trace;
  constexpr int kEvents = 4000;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 100;
    trace.Step(step, begin_ms, begin_ms + 100);
    for (int i = 0; i < kEvents; ++i) {
      const double at_ms = begin_ms + 100.0 * i / kEvents;
      trace.Event(i % 2 == 0 ? "add" : "multiply", at_ms, at_ms + 0.02);
      // Classes that alternate cannot be joined.
      trace.Kernel(i % 2 == 0 ? "gemm" : "MemcpyHtoD", at_ms, at_ms + 0.02);
    }
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const Digests digests = DigestsOf(directory_.path());
  ASSERT_EQ(digests.workers.size(), 1u);
  const v1::DigestTimeline& timeline = digests.workers[0].timeline();
  EXPECT_GE(timeline.steps_size(), 5);
  for (const v1::DigestTimeline::Step& step : timeline.steps()) {
    EXPECT_LE(step.line_size(), static_cast<int>(TimelineReader::kMaxBlocks));
    uint64_t events = step.left_out();
    for (const uint32_t count : step.events()) events += count;
    EXPECT_EQ(events, 2u * kEvents + 1) << step.step();
  }
  EXPECT_LT(digests.workers[0].ByteSizeLong(), 200u << 10);
  // The thread's short operators are one block.
  const Report report = Reduce(digests);
  ASSERT_FALSE(report.timeline.empty());
  bool joined = false;
  for (const ShownLine& line : report.timeline[0].workers.at(0).lines) {
    for (const ShownBlock& block : line.blocks) joined = joined || block.events == kEvents;
  }
  EXPECT_TRUE(joined);
}

// Its place in the file is far from those of the step's other events.
TEST_F(TimelineTest, AnEventThatBeganLongBeforeAStepIsPartOfIt) {
  TraceFile trace;
  constexpr int kSteps = 40;
  constexpr double kStepMs = 100;
  trace.Event("serve", 0, kSteps * kStepMs, {}, {}, "/host:CPU", 2);
  for (int step = 0; step < kSteps; ++step) {
    const double begin_ms = step * kStepMs;
    trace.Step(step, begin_ms, begin_ms + kStepMs);
    for (int i = 0; i < 1000; ++i) {
      trace.Event("poll", begin_ms + 0.1 * i, begin_ms + 0.1 * i + 0.05, {}, {}, "/host:CPU", 2);
    }
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const Digests digests = DigestsOf(directory_.path());
  ASSERT_EQ(digests.workers.size(), 1u);
  const v1::DigestTimeline& timeline = digests.workers[0].timeline();
  EXPECT_GE(timeline.steps_size(), 5);
  for (const v1::DigestTimeline::Step& step : timeline.steps()) {
    uint64_t served_ns = 0;
    uint64_t polls = 0;
    for (int i = 0; i < step.name_size(); ++i) {
      const std::string& name = timeline.names(static_cast<int>(step.name(i)));
      if (name == "serve") served_ns += step.length_ns(i);
      if (name == "poll") polls += step.events(i);
    }
    EXPECT_EQ(served_ns, static_cast<uint64_t>(kStepMs * 1e6)) << step.step();
    EXPECT_EQ(polls, 1000u) << step.step();
  }
}

TEST_F(TimelineTest, ADigestFromAnywhereIsDrawnAsFarAsItFits) {
  AddRanks(
      2, 20, [](int, int) { return 5.0; }, [](int, int) { return 50.0; });
  WriteManifest();
  Digests digests = DigestsOf(directory_.path());
  v1::DigestTimeline* timeline = digests.workers[0].mutable_timeline();
  for (v1::DigestTimeline::Step& step : *timeline->mutable_steps()) {
    step.set_line(0, UINT32_MAX);
    step.set_name(1, UINT32_MAX);
    step.set_begin_ns(2, INT64_MIN);
    step.add_line(0);  // columns of different lengths
  }
  timeline->add_steps()->set_step(UINT32_MAX);
  timeline->set_what(0, 4711);
  const Report report = Reduce(digests);
  ASSERT_FALSE(report.timeline.empty());
  EXPECT_EQ(report.timeline[0].workers.at(0).left_out, 4u);
  EXPECT_THAT(ReportHtml(report), HasSubstr("short events are left out"));
}

// 1,024 workers are not drawn, but those that matter are.
TEST_F(TimelineTest, OfManyWorkersAFewAreDrawn) {
  AddRanks(
      40, 20, [](int rank, int) { return rank == 33 ? 30.0 : 5.0 + 0.01 * rank; },
      [](int, int) { return 50.0; });
  WriteManifest();
  const Digests digests = DigestsOf(directory_.path());
  const Report report = Reduce(digests);
  ASSERT_FALSE(report.timeline.empty());
  std::vector<size_t> shown;
  for (const ShownWorker& worker : report.timeline[0].workers) shown.push_back(worker.worker);
  EXPECT_EQ(shown.size(), kMaxShownWorkers);
  EXPECT_THAT(shown, ::testing::IsSupersetOf({size_t{0}, size_t{33}, size_t{39}}));
}

}  // namespace
}  // namespace jobscope::analysis
