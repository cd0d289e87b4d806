// SPDX-License-Identifier: Apache-2.0
#include "analysis/step_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tensorflow/xplane.pb.h"

namespace jobscope::analysis {
namespace {

using tensorflow::profiler::XEvent;
using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;
using tensorflow::profiler::XSpace;

constexpr int64_t kMs = 1'000'000'000;  // in ps
constexpr int64_t kRootStat = 1;
constexpr int64_t kStepNumStat = 2;
constexpr int64_t kStageStat = 3;
constexpr int64_t kTrainEvent = 1;
constexpr int64_t kWaitEvent = 2;
constexpr int64_t kOtherEvent = 3;

// A host plane as a worker writes it: metadata for the names above, no lines.
XPlane* AddHostPlane(XSpace* space) {
  XPlane* plane = space->add_planes();
  plane->set_name("/host:CPU");
  const std::vector<std::string> stats = {"_r", "step_num", "_ipl_stage_name"};
  for (size_t i = 0; i < stats.size(); ++i) {
    const auto id = static_cast<int64_t>(i + 1);
    (*plane->mutable_stat_metadata())[id].set_id(id);
    (*plane->mutable_stat_metadata())[id].set_name(stats[i]);
  }
  const std::vector<std::string> events = {"train", "IteratorGetNext next_batch", "forward"};
  for (size_t i = 0; i < events.size(); ++i) {
    const auto id = static_cast<int64_t>(i + 1);
    (*plane->mutable_event_metadata())[id].set_id(id);
    (*plane->mutable_event_metadata())[id].set_name(events[i]);
  }
  return plane;
}

XEvent* AddEvent(XLine* line, int64_t metadata_id, int64_t start_ms, int64_t duration_ms) {
  XEvent* event = line->add_events();
  event->set_metadata_id(metadata_id);
  event->set_offset_ps(start_ms * kMs);
  event->set_duration_ps(duration_ms * kMs);
  return event;
}

void AddStat(XEvent* event, int64_t id, int64_t value) {
  event->add_stats()->set_metadata_id(id);
  event->mutable_stats(event->stats_size() - 1)->set_int64_value(value);
}

XEvent* AddStep(XLine* line, int64_t number, int64_t start_ms, int64_t duration_ms) {
  XEvent* step = AddEvent(line, kTrainEvent, start_ms, duration_ms);
  AddStat(step, kRootStat, 1);
  AddStat(step, kStepNumStat, number);
  return step;
}

TEST(ReadStepsTest, FindsStepsAndTheirInputWaits) {
  XSpace space;
  XLine* line = AddHostPlane(&space)->add_lines();
  AddStep(line, 7, 0, 10);
  AddEvent(line, kWaitEvent, 0, 4);
  AddEvent(line, kWaitEvent, 1, 2);  // nested: counts once
  AddEvent(line, kOtherEvent, 4, 6);
  AddEvent(line, kWaitEvent, 11, 2);  // between steps: belongs to none
  AddStep(line, 8, 20, 10);
  AddEvent(line, kWaitEvent, 29, 5);  // reaches over the end

  const absl::StatusOr<std::vector<Step>> steps = ReadSteps(space.SerializeAsString());
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[0].number, 7);
  EXPECT_EQ((*steps)[0].start_ps, 0);
  EXPECT_EQ((*steps)[0].duration_ps, 10 * kMs);
  EXPECT_EQ((*steps)[0].input_wait_ps, 4 * kMs);
  EXPECT_EQ((*steps)[1].number, 8);
  EXPECT_EQ((*steps)[1].input_wait_ps, 1 * kMs);
}

TEST(ReadStepsTest, CountsStagesOfTheInputPipeline) {
  XSpace space;
  XLine* line = AddHostPlane(&space)->add_lines();
  AddStep(line, 1, 0, 10);
  AddEvent(line, kOtherEvent, 2, 3)->add_stats()->set_metadata_id(kStageStat);
  const absl::StatusOr<std::vector<Step>> steps = ReadSteps(space.SerializeAsString());
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 1u);
  EXPECT_EQ(steps->front().input_wait_ps, 3 * kMs);
}

TEST(ReadStepsTest, WaitsOfOtherThreadsDoNotCount) {
  XSpace space;
  XPlane* plane = AddHostPlane(&space);
  AddStep(plane->add_lines(), 1, 0, 10);
  AddEvent(plane->add_lines(), kWaitEvent, 0, 10);
  const absl::StatusOr<std::vector<Step>> steps = ReadSteps(space.SerializeAsString());
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 1u);
  EXPECT_EQ(steps->front().input_wait_ps, 0);
}

TEST(ReadStepsTest, OrdersStepsOfSeveralThreadsAndAddsTheLinesTime) {
  XSpace space;
  XPlane* plane = AddHostPlane(&space);
  XLine* late = plane->add_lines();
  late->set_timestamp_ns(5'000'000);
  AddStep(late, 2, 1, 1);
  AddStep(plane->add_lines(), 1, 2, 1);
  const absl::StatusOr<std::vector<Step>> steps = ReadSteps(space.SerializeAsString());
  ASSERT_TRUE(steps.ok()) << steps.status();
  ASSERT_EQ(steps->size(), 2u);
  EXPECT_EQ((*steps)[0].number, 1);
  EXPECT_EQ((*steps)[1].number, 2);
  EXPECT_EQ((*steps)[1].start_ps, 6 * kMs);
}

TEST(ReadStepsTest, ClippedStepsAndOtherPlanesAreLeftOut) {
  XSpace space;
  XPlane* plane = AddHostPlane(&space);
  AddEvent(plane->add_lines(), kTrainEvent, 0, 10);  // clipped: no `_r`, no number
  XPlane other = *plane;
  other.set_name("/device:GPU:0");
  AddStep(other.add_lines(), 1, 0, 10);
  *space.add_planes() = other;
  const absl::StatusOr<std::vector<Step>> steps = ReadSteps(space.SerializeAsString());
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_TRUE(steps->empty());
}

TEST(ReadStepsTest, EmptyTraceHasNoSteps) {
  const absl::StatusOr<std::vector<Step>> steps = ReadSteps("");
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_TRUE(steps->empty());
}

TEST(ReadStepsTest, EveryCutOfAFileIsAnErrorOrAPrefix) {
  XSpace space;
  XLine* line = AddHostPlane(&space)->add_lines();
  AddStep(line, 1, 0, 10);
  const std::string bytes = space.SerializeAsString();
  for (size_t size = 1; size < bytes.size(); ++size) {
    const absl::StatusOr<std::vector<Step>> steps =
        ReadSteps(std::string_view(bytes).substr(0, size));
    EXPECT_EQ(steps.status().code(), absl::StatusCode::kInvalidArgument) << size;
  }
}

TEST(SummarizeTest, RanksAndShare) {
  std::vector<Step> steps;
  for (int64_t i = 1; i <= 10; ++i) steps.push_back({i, i * 100 * kMs, i * kMs, i * kMs / 4});
  const StepSummary summary = Summarize(steps);
  EXPECT_EQ(summary.steps, 10u);
  EXPECT_DOUBLE_EQ(summary.median_ms, 6.0);
  EXPECT_DOUBLE_EQ(summary.p90_ms, 10.0);
  EXPECT_DOUBLE_EQ(summary.longest_ms, 10.0);
  EXPECT_DOUBLE_EQ(summary.input_wait_share, 0.25);
}

TEST(SummarizeTest, NoSteps) { EXPECT_EQ(Summarize({}).steps, 0u); }

}  // namespace
}  // namespace jobscope::analysis
