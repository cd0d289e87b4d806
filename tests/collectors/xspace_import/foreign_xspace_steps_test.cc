// SPDX-License-Identifier: Apache-2.0
#include "collectors/xspace_import/foreign_xspace_steps.h"

#include "collectors/xspace_import/foreign_xspace_time.h"
#include "tests/collectors/xspace_import/foreign_xspace_util.h"

namespace jobscope::framework {
namespace {

constexpr char kStep[] = "PjitFunction(step)";

// A loop of `count` iterations of 1 ms: a small helper twice, then the step, which calls itself
// through another cache. With `scoped`, in a scope of the program's own.
XSpace Loop(int count, bool scoped = false) {
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  XLine* const line = host.Line(-1, "python");
  for (int i = 0; i < count; ++i) {
    const int64_t begin = i * 1'000'000;
    if (scoped) host.Event(line, "iteration", begin, 800'000);
    host.Event(line, "PjitFunction(helper)", begin + 1'000, 10'000);
    host.Event(line, "PjitFunction(helper)", begin + 20'000, 10'000);
    host.Event(line, kStep, begin + 100'000, 500'000);
    host.Event(line, kStep, begin + 110'000, 480'000);
    host.Event(line, "PjitFunction(inner)", begin + 120'000, 400'000);
  }
  // Elsewhere there is more of something that is no call.
  XLine* const other = host.Line(-2, "worker");
  for (int i = 0; i < count; ++i) host.Event(other, "thunk", i * 1'000'000, 900'000);
  return space;
}

TEST(ForeignXSpaceStepsTest, TheCallThatTakesMostTimeMakesTheSteps) {
  ForeignOptions options;
  options.step_calls = kJaxCalls;
  Merged merged(options);
  ASSERT_TRUE(merged.Merge(Loop(6)).ok());
  merged.Read();
  EXPECT_EQ(merged->account().inferred_from, kStep);
  EXPECT_EQ(merged->account().steps, 5u);
  const std::vector<ReadEvent> steps = merged.Named("Frame step");
  ASSERT_EQ(steps.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(steps[i].ints.at("_r"), 1);
    EXPECT_EQ(steps[i].ints.at("step_num"), 1 + i);
    EXPECT_EQ(steps[i].texts.at("inferred_from"), kStep);
    EXPECT_EQ(steps[i].start_ps, (i * 1'000'000 + 100'000) * int64_t{1000});
    EXPECT_EQ(steps[i].duration_ps, 1'000'000'000);
    EXPECT_EQ(steps[i].line, "python");
  }
}

TEST(ForeignXSpaceStepsTest, ProgramsCountForMoreThanTheCallsThatStartThem) {
  XSpace space = Loop(6);
  XPlane* const plane = space.mutable_planes(1);
  PlaneMaker host(plane, plane->name());
  // The call of the step is over at once, and the program runs on another thread.
  for (XEvent& event : *plane->mutable_lines(0)->mutable_events()) {
    if (event.metadata_id() == host.EventId(kStep)) event.set_duration_ps(1000);
  }
  for (const auto& [program, duration_ns] :
       {std::pair("jit_step", 700'000), {"jit_helper", 1'000}}) {
    for (int i = 0; i < 6; ++i) {
      XEvent* const op = host.Event(plane->mutable_lines(1), "fusion", i * 1'000'000, duration_ns);
      auto* const stat = op->add_stats();
      stat->set_metadata_id(host.StatId("hlo_module"));
      stat->set_ref_value(static_cast<uint64_t>(host.StatId(program)));
    }
  }
  ForeignOptions options;
  options.step_calls = kJaxCalls;
  Merged merged(options);
  ASSERT_TRUE(merged.Merge(space).ok());
  merged.Read();
  EXPECT_EQ(merged->account().inferred_from, kStep);
}

TEST(ForeignXSpaceStepsTest, StepsBeginWithTheScopeAroundTheCall) {
  ForeignOptions options;
  options.step_calls = kJaxCalls;
  Merged merged(options);
  ASSERT_TRUE(merged.Merge(Loop(4, /*scoped=*/true)).ok());
  merged.Read();
  const std::vector<ReadEvent> steps = merged.Named("Frame step");
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[1].start_ps, 1'000'000'000);
  // So that what is nested stays nested.
  const std::vector<ReadEvent> scopes = merged.Named("iteration");
  EXPECT_EQ(scopes[1].start_ps, steps[1].start_ps);
}

TEST(ForeignXSpaceStepsTest, NumbersGoOnInTheNextPiece) {
  ForeignOptions options;
  options.step_calls = kJaxCalls;
  Merged merged(options);
  ASSERT_TRUE(merged.Merge(Loop(4)).ok());
  ASSERT_TRUE(merged.Merge(Loop(4)).ok());
  merged.Read();
  EXPECT_EQ(merged->account().steps, 6u);
  std::vector<int64_t> numbers;
  for (const ReadEvent& step : merged.Named("Frame step")) {
    numbers.push_back(step.ints.at("step_num"));
  }
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(numbers, (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
}

TEST(ForeignXSpaceStepsTest, OnlyWholeStepsCount) {
  ForeignOptions options;
  options.step_calls = kJaxCalls;
  ForeignWindow window;
  window.start_ps = 500'000'000;
  window.end_ps = 3'500'000'000;
  Merged merged(options);
  ASSERT_TRUE(merged.Merge(Loop(6), window).ok());
  merged.Read();
  EXPECT_EQ(merged->account().steps, 2u);
}

TEST(ForeignXSpaceStepsTest, StepsThatTheStoreRefusesAreNotCounted) {
  ForeignOptions options;
  options.step_calls = kJaxCalls;
  Merged merged(options);
  merged.sink().refused = {xspace::ItemKind::kEvents};
  merged.sink().refusals = 1;
  ASSERT_TRUE(merged.Merge(Loop(6)).ok());
  ASSERT_TRUE(merged.Merge(Loop(4)).ok());
  merged.Read();
  EXPECT_EQ(merged->account().steps, 3u);
  EXPECT_EQ(merged.Named("Frame step").size(), 3u);
}

TEST(ForeignXSpaceStepsTest, NoneAreInferred) {
  ForeignOptions infer;
  infer.step_calls = kJaxCalls;
  {
    Merged merged(infer);  // too few calls
    ASSERT_TRUE(merged.Merge(Loop(1)).ok());
    merged.Read();
    EXPECT_FALSE(merged->account().steps.has_value());
  }
  {
    Merged merged;  // not asked to
    ASSERT_TRUE(merged.Merge(Loop(6)).ok());
    merged.Read();
    EXPECT_FALSE(merged->account().steps.has_value());
  }
  {
    ForeignOptions options = infer;
    options.drop_steps = true;  // the session has others
    Merged merged(options);
    ASSERT_TRUE(merged.Merge(Loop(6)).ok());
    merged.Read();
    EXPECT_FALSE(merged->account().steps.has_value());
  }
  {
    Merged merged(infer);  // the program marks its own
    XSpace space = Loop(6);
    XPlane* const plane = space.mutable_planes(1);
    PlaneMaker host(plane, plane->name());
    host.Int(plane->mutable_lines(0)->mutable_events(0), "_r", 1);
    ASSERT_TRUE(merged.Merge(space).ok());
    merged.Read();
    EXPECT_TRUE(merged->account().inferred_from.empty());
    EXPECT_EQ(merged.Named("Frame step").size(), 0u);
  }
}

// A loop of `count` iterations of TensorFlow: a helper, the step, and what each of them runs.
XSpace LoopOfTensorflow(int count) {
  XSpace space = SpaceOfTest();
  PlaneMaker host(space.add_planes(), "/host:CPU");
  XLine* const line = host.Line(-1, "python");
  const auto call = [&](const std::string& name, int64_t begin_ns, int64_t duration_ns) {
    auto* const stat = host.Event(line, name, begin_ns, duration_ns)->add_stats();
    stat->set_metadata_id(host.StatId("tf_function_call"));
    stat->set_ref_value(static_cast<uint64_t>(host.StatId("notTraced-nonXla")));
    XEvent* const run = host.Event(line, "FunctionRun", begin_ns + 1'000, duration_ns - 2'000);
    host.Int(run, "_r", 1);
    host.Int(run, "_pt", 2);
    host.Int(run, "_p", 77);
  };
  for (int i = 0; i < count; ++i) {
    const int64_t begin = i * 1'000'000;
    call("normalize", begin + 10'000, 20'000);
    call("normalize", begin + 40'000, 20'000);
    call("update", begin + 100'000, 300'000);
    host.Event(line, "no call of a function", begin + 500'000, 400'000);
  }
  return space;
}

TEST(ForeignXSpaceStepsTest, CallsOfTensorflowsFunctionsAreKnownByTheirStat) {
  ForeignOptions options;
  options.step_calls = kTensorflowCalls;
  Merged merged(options);
  ASSERT_TRUE(merged.Merge(LoopOfTensorflow(5)).ok());
  merged.Read();
  EXPECT_EQ(merged->account().inferred_from, "update");
  const std::vector<ReadEvent> steps = merged.Named("Frame step");
  ASSERT_EQ(steps.size(), 4u);
  EXPECT_EQ(steps[1].start_ps, 1'100'000'000);
  EXPECT_EQ(steps[1].duration_ps, 1'000'000'000);

  Merged other({options});
  ASSERT_TRUE(other.Merge(Loop(5)).ok());  // nothing in it has the stat
  EXPECT_TRUE(other->account().inferred_from.empty());
}

TEST(ForeignXSpaceStepsTest, MarksOfTensorflowsProgramWinOverItsCalls) {
  ForeignOptions options;
  options.step_calls = kTensorflowCalls;
  Merged merged(options);
  XSpace space = LoopOfTensorflow(5);
  XPlane* const plane = space.mutable_planes(1);
  PlaneMaker host(plane, plane->name());
  host.Int(plane->mutable_lines(0)->mutable_events(0), "_r", 1);
  ASSERT_TRUE(merged.Merge(space).ok());
  EXPECT_TRUE(merged->account().inferred_from.empty());
}

TEST(ForeignTimeTest, FollowsAClockThatIsSteered) {
  // 100 ppm of 10 s: 1 ms.
  const ForeignTime time(MapOfTest(), ClocksAfter(0), ClocksAfter(10'000'000'000, 100));
  EXPECT_FALSE(time.stepped());
  EXPECT_NEAR(static_cast<double>(time.ToPs(kStartUnixNs + 10'001'000'000, 0)), 10e12, 2e3);
  EXPECT_EQ(time.ToPs(kStartUnixNs, 0), 0);
  int64_t before = INT64_MIN;
  for (int64_t ps = -5000; ps < 5000; ++ps) {
    const int64_t now = time.ToPs(kStartUnixNs + 4'000'000'000, ps);
    EXPECT_GE(now, before);
    before = now;
  }
}

TEST(ForeignTimeTest, SaturatesAndTellsAClockThatWasSet) {
  const ForeignTime time = TimeOfTest();
  EXPECT_EQ(time.ToPs(INT64_MAX, INT64_MAX), INT64_MAX);
  EXPECT_EQ(time.ToPs(INT64_MIN, INT64_MIN), INT64_MIN);
  ClockSample back = ClocksAfter(1'000'000'000);
  back.realtime_ns -= 5'000'000'000;
  EXPECT_TRUE(ForeignTime(MapOfTest(), ClocksAfter(0), back).stepped());
  // Nearer samples tell nothing about the rate.
  EXPECT_FALSE(ForeignTime(MapOfTest(), ClocksAfter(0), ClocksAfter(1'000'000, 5000)).stepped());
}

}  // namespace
}  // namespace jobscope::framework
