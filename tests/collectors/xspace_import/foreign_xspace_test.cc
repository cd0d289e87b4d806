// SPDX-License-Identifier: Apache-2.0
#include "collectors/xspace_import/foreign_xspace.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "tests/collectors/xspace_import/foreign_xspace_util.h"

namespace jobscope::framework {
namespace {

constexpr int64_t kMs = 1'000'000'000;  // ps

TEST(ForeignXSpaceTest, TimesCountFromTheSessionsZero) {
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  XLine* const relative = host.Line(-7, "relative");
  relative->set_timestamp_ns(6000);
  host.Event(relative, "a", 1'000, 500);
  XLine* const absolute = host.Line(-8, "absolute");
  absolute->set_timestamp_ns(kStartUnixNs + 9000);
  host.Event(absolute, "b", 1'000, 500);
  Merged merged;
  ASSERT_TRUE(merged.Merge(space).ok());
  merged.Read();
  EXPECT_EQ(merged.One("a").start_ps, 7'000'000);
  EXPECT_EQ(merged.One("a").duration_ps, 500'000);
  EXPECT_EQ(merged.One("b").start_ps, 10'000'000);
  EXPECT_EQ(merged.One("a").line, "relative");
  EXPECT_EQ(merged.Planes("/host:CPU").size(), 1u);
}

TEST(ForeignXSpaceTest, WithoutAStartTimeLinesCountFromTheClocksBeforeIt) {
  XSpace space;
  PlaneMaker host(space.add_planes(), "/host:CPU");
  host.Event(host.Line(-7, "x"), "a", 1'000, 500);
  Merged merged;
  ASSERT_TRUE(merged.Merge(space).ok());
  merged.Read();
  EXPECT_EQ(merged.One("a").start_ps, 1'000'000);
}

// A start on another day cannot be that of this recording.
TEST(ForeignXSpaceTest, AnImpossibleStartTimeIsIgnored) {
  for (const int64_t start_ns : {INT64_MIN, INT64_MIN + 1, int64_t{-1}, int64_t{1}, INT64_MAX}) {
    XSpace space = SpaceOfTest();
    space.mutable_planes(0)->mutable_stats(0)->set_int64_value(start_ns);
    PlaneMaker host(space.add_planes(), "/host:CPU");
    host.Event(host.Line(-7, "x"), "a", 1'000, 500);
    Merged merged;
    ASSERT_TRUE(merged.Merge(space).ok());
    merged.Read();
    EXPECT_EQ(merged.One("a").start_ps, 1'000'000) << start_ns;
  }
}

TEST(ForeignXSpaceTest, LinesOfThreadsJoinThem) {
  const auto tid = static_cast<int64_t>(syscall(SYS_gettid));
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  host.Event(host.Line(-42, "python"), "by hash", 10, 5);
  host.Event(host.Line(tid, "python"), "by thread", 100, 5);
  ForeignOptions options;
  options.thread_of = [tid](int64_t id) -> std::optional<int64_t> {
    if (id == -42 || id == tid) return tid;
    return std::nullopt;
  };
  Merged merged(options);
  ASSERT_TRUE(merged.Merge(space).ok());
  merged.Read();
  EXPECT_EQ(merged.One("by hash").line_id, tid);
  EXPECT_EQ(merged.One("by thread").line_id, tid);
  EXPECT_NE(merged.One("by hash").line.find("/" + std::to_string(tid)), std::string::npos);
  EXPECT_EQ(merged.Planes("/host:CPU")[0]->lines_size(), 1);
}

TEST(ForeignXSpaceTest, LinesOfNoThreadTakeNoThreadsId) {
  const auto tid = static_cast<int64_t>(syscall(SYS_gettid));
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  host.Event(host.Line(4'000'000, "four million"), "no thread", 10, 5);
  host.Event(host.Line(0, ""), "zero", 10, 5);
  host.Event(host.Line(tid, "me"), "me", 10, 5);
  host.Event(host.Line(0xdeadbeef + 5, "derived"), "derived", 10, 5);
  Merged merged;
  ASSERT_TRUE(merged.Merge(space).ok());
  merged.Read();
  EXPECT_GT(merged.One("no thread").line_id, int64_t{1} << 32);
  EXPECT_EQ(merged.One("no thread").line, "four million");
  EXPECT_NE(merged.One("zero").line_id, 0);
  EXPECT_EQ(merged.One("zero").line, "Frame");
  EXPECT_EQ(merged.One("me").line_id, tid);  // the default: an id that is a thread is that thread
  EXPECT_NE(merged.One("derived").line_id, 0xdeadbeef + 5);
}

TEST(ForeignXSpaceTest, PlanesOfOneNameAndLinesOfOneIdBecomeOne) {
  Merged merged;
  for (int piece = 0; piece < 2; ++piece) {
    XSpace space = SpaceOfTest();
    for (const char* name : {"/host:CPU", "/host:CPU", "/device:TPU:0"}) {
      PlaneMaker plane(space.add_planes(), name);
      plane.Event(plane.Line(-1, "line"), std::string(name) + " event", 1000 - 500 * piece, 100);
    }
    ASSERT_TRUE(merged.Merge(space).ok());
  }
  merged.Read();
  ASSERT_EQ(merged.Planes("/host:CPU").size(), 1u);
  EXPECT_EQ(merged.Planes("/host:CPU")[0]->lines_size(), 1);
  EXPECT_EQ(merged.Named("/host:CPU event").size(), 4u);
  ASSERT_EQ(merged.Planes("/device:TPU:0").size(), 1u);
  EXPECT_EQ(merged.Planes("/device:TPU:0")[0]->lines_size(), 1);
}

TEST(ForeignXSpaceTest, EventsAreClippedToTheWindow) {
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  XLine* const line = host.Line(-1, "x");
  host.Event(line, "before", 0, 500'000);
  host.Event(line, "into", 500'000, 1'000'000);
  host.Event(line, "inside", 1'600'000, 100'000);
  host.Event(line, "out of", 1'900'000, 1'000'000);
  host.Event(line, "after", 2'500'000, 100'000);
  ForeignWindow window;
  window.start_ps = kMs;
  window.end_ps = 2 * kMs;
  Merged merged;
  ASSERT_TRUE(merged.Merge(space, window).ok());
  merged.Read();
  EXPECT_EQ(merged->account().outside, 2u);
  EXPECT_EQ(merged->account().events, 3u);
  const ReadEvent into = merged.One("into");
  EXPECT_EQ(into.start_ps, kMs);
  EXPECT_EQ(into.end_ps(), kMs * 3 / 2);
  EXPECT_EQ(into.ints.at("truncated"), 1);
  EXPECT_EQ(into.ints.at("true_start_ns"), 500'000);
  const ReadEvent out_of = merged.One("out of");
  EXPECT_EQ(out_of.end_ps(), 2 * kMs);
  EXPECT_EQ(out_of.ints.at("true_end_ns"), 2'900'000);
  EXPECT_EQ(merged.One("inside").ints.count("truncated"), 0u);
}

XSpace WithSteps(int64_t step_ns = 1'000'000) {
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  XLine* const line = host.Line(-1, "x");
  for (int i = 0; i < 3; ++i) {
    XEvent* const step = host.Event(line, "train", i * step_ns, step_ns * 9 / 10);
    host.Int(step, "_r", 1);
    host.Int(step, "step_num", 40 + i);
    host.Int(step, "group_id", i);
  }
  return space;
}

TEST(ForeignXSpaceTest, StepMarksStayWhereThereAreNoOthers) {
  ForeignWindow window;
  window.end_ps = kMs * 5 / 2;
  Merged merged;
  ASSERT_TRUE(merged.Merge(WithSteps(), window).ok());
  merged.Read();
  EXPECT_EQ(merged->account().steps, 2u);
  const std::vector<ReadEvent> steps = merged.Named("train");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[1].ints.at("_r"), 1);
  EXPECT_EQ(steps[1].ints.at("step_num"), 41);
  // XProf groups nothing in a trace with group ids.
  EXPECT_EQ(steps[1].ints.count("group_id"), 0u);
  // The window ends in the third.
  EXPECT_EQ(steps[2].ints.count("_r"), 0u);
  EXPECT_EQ(steps[2].ints.count("step_num"), 0u);
  EXPECT_EQ(steps[2].ints.at("clipped_step"), 42);
}

// Each step has a segment of its own.
TEST(ForeignXSpaceTest, StepsThatTheStoreRefusesAreNotCounted) {
  for (const uint64_t refusals : {0, 1, 3}) {
    Merged merged;
    merged.sink().refused = {xspace::ItemKind::kEvents};
    merged.sink().refusals = refusals;
    ASSERT_TRUE(merged.Merge(WithSteps(/*step_ns=*/300'000'000)).ok());
    merged.Read();
    EXPECT_EQ(merged->account().steps.value_or(0), 3 - refusals);
    EXPECT_EQ(merged->account().steps.has_value(), refusals < 3);
    EXPECT_EQ(merged.Named("train").size(), 3 - refusals);
  }
}

TEST(ForeignXSpaceTest, StepMarksAreRemovedIfAnotherSourceHasSteps) {
  ForeignOptions options;
  options.drop_steps = true;
  Merged merged(options);
  ASSERT_TRUE(merged.Merge(WithSteps()).ok());
  merged.Read();
  EXPECT_FALSE(merged->account().steps.has_value());
  for (const ReadEvent& step : merged.Named("train")) {
    EXPECT_EQ(step.ints.count("_r"), 0u);
    EXPECT_EQ(step.ints.count("step_num"), 0u);
    EXPECT_EQ(step.ints.count("framework_step"), 1u);
  }
}

TEST(ForeignXSpaceTest, PlanesOfGpusAreLeftOutWhereTheSessionHasItsOwn) {
  XSpace space = SpaceOfTest();
  PlaneMaker gpu(space.add_planes(), "/device:GPU:0");
  gpu.Event(gpu.Line(7, "stream"), "kernel", 10, 5);
  PlaneMaker empty(space.add_planes(), "/device:GPU:1");
  for (const bool own : {false, true}) {
    ForeignOptions options;
    options.drop_gpu_planes = own;
    Merged merged(options);
    ASSERT_TRUE(merged.Merge(space).ok());
    merged.Read();
    EXPECT_EQ(merged.Named("kernel").size(), own ? 0u : 1u);
    EXPECT_EQ(merged->account().warnings.size(), own ? 1u : 0u);
    EXPECT_EQ(merged.Planes("/device:GPU:1").size(), 0u);  // XProf finds no steps beside it
  }
}

TEST(ForeignXSpaceTest, AnEventWithoutATimeIsLost) {
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  XLine* const line = host.Line(-1, "x");
  host.Event(line, "aggregate", 0, 5)->set_num_occurrences(4);
  host.Event(line, "instant", 10, 0);
  Merged merged;
  ASSERT_TRUE(merged.Merge(space).ok());
  merged.Read();
  EXPECT_EQ(merged->account().lost_by_cause.at(LossCause::kInvalid), 1u);
  EXPECT_EQ(merged.One("instant").duration_ps, 1);  // XProf gives all time to events of length 0
}

TEST(ForeignXSpaceTest, AFullStoreIsCounted) {
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  XLine* const line = host.Line(-1, "x");
  for (int i = 0; i < 200'000; ++i) host.Event(line, "e", 10 * i, 5);
  Merged merged({}, 1 << 20);
  ASSERT_TRUE(merged.Merge(space).ok());
  merged.Read();
  EXPECT_GT(merged->account().lost_by_cause.at(LossCause::kStoreFull), 10'000u);
  EXPECT_GT(merged->account().events, 10'000u);
}

// Each declaration is made again once there is room: the plane, the line, the names, the stats.
TEST(ForeignXSpaceTest, AStoreThatWasFullTakesTheLaterEventsOfALine) {
  for (const auto kind :
       {xspace::ItemKind::kPlane, xspace::ItemKind::kLine, xspace::ItemKind::kNames}) {
    for (const char* plane : {"/host:CPU", "/device:TPU:0"}) {
      XSpace space = SpaceOfTest();
      PlaneMaker maker(space.add_planes(), plane);
      XLine* const line = maker.Line(-1, "x");
      for (int i = 0; i < 100; ++i) {
        maker.Int(maker.Event(line, "e", 1000 * i, 500), "number", i);
      }
      Merged merged;
      merged.sink().refused = {kind};
      merged.sink().refusals = 20;
      ASSERT_TRUE(merged.Merge(space).ok());
      merged.Read();
      EXPECT_GT(merged->account().lost_by_cause.at(LossCause::kStoreFull), 0u);
      const std::vector<ReadEvent> events = merged.Named("e");
      ASSERT_GT(events.size(), 70u) << plane << ", " << static_cast<int>(kind);
      EXPECT_EQ(events.back().line, "x");
      EXPECT_EQ(events.back().ints.at("number"), 99);
    }
  }
}

TEST(ForeignXSpaceTest, TruncatedBytesAreAnError) {
  XSpace space = WithSteps();
  PlaneMaker metadata(space.add_planes(), "/host:metadata");
  (void)metadata.EventId("module");
  const std::string bytes = space.SerializeAsString();
  size_t errors = 0;
  for (size_t size = 0; size < bytes.size(); ++size) {
    Merged merged;
    const absl::Status status =
        merged->Merge(std::string_view(bytes).substr(0, size), TimeOfTest(), {});
    merged.Read();
    if (status.ok()) continue;
    ++errors;
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    EXPECT_NE(status.message().find("Frame"), std::string::npos);
  }
  EXPECT_GT(errors, bytes.size() - 10);  // except at the ends of planes
}

TEST(ForeignXSpaceTest, AClockThatWasSetIsReported) {
  Merged merged;
  ClockSample set = ClocksAfter(1'000'000'000);
  set.realtime_ns += 3'000'000'000;
  const ForeignTime time(MapOfTest(), ClocksAfter(0), set);
  ASSERT_TRUE(merged->Merge(WithSteps().SerializeAsString(), time, {}).ok());
  merged.Read();
  ASSERT_EQ(merged->account().warnings.size(), 1u);
  EXPECT_NE(merged->account().warnings[0].find("clock was set"), std::string::npos);
}

}  // namespace
}  // namespace jobscope::framework
