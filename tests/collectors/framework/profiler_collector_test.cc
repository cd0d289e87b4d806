// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/profiler_collector.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <optional>
#include <string>

#include "collectors/framework/framework_collectors.h"
#include "tests/collectors/framework/profiler_fixture.h"
#include "tests/collectors/host/session_driver.h"
#include "tests/collectors/throwing_sink.h"

namespace jobscope {
namespace {

class ProfilerCollectorTest : public ProfilerTest {};

TEST_P(ProfilerCollectorTest, WhatItHandsOverIsInTheTrace) {
  EXPECT_EQ(collector_->name(), GetParam().name);
  ASSERT_TRUE(driver_.Arm().ok());
  EXPECT_EQ(collector_->Describe().state, CollectorState::kOn);
  EXPECT_EQ(Int("running"), 0);  // others may want it until the start
  ASSERT_TRUE(driver_.Start().ok());
  EXPECT_EQ(Int("running"), 1);
  EXPECT_EQ(Int("asked_level"), 3);
  EXPECT_EQ(Int("asked_python_level"), 0);
  SetTrace(Recording(3, /*marked=*/true));
  const uint64_t end = driver_.Now() + 1'000'000'000;
  const CollectorReport& report = driver_.StopAt(end);
  EXPECT_EQ(report.state, CollectorState::kOn) << report.reason;
  EXPECT_EQ(report.events, 3u);
  EXPECT_EQ(report.steps, 3u);
  driver_.ExpectIdentity();
  EXPECT_EQ(driver_.Named("PjitFunction(step)").size(), 3u);
}

TEST_P(ProfilerCollectorTest, StepsOfOthersWin) {
  has_steps_ = true;
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  SetTrace(Recording(3, /*marked=*/true));
  const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_EQ(report.events, 3u);
  EXPECT_FALSE(report.steps.has_value());
}

TEST_P(ProfilerCollectorTest, StepsAreInferred) {
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  SetTrace(Recording(5));
  const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_EQ(report.steps, 4u);
  EXPECT_EQ(report.steps_inferred_from, "PjitFunction(step)");
  EXPECT_EQ(report.warnings.size(), 1u);
}

TEST_P(ProfilerCollectorTest, WithoutMemoryNothingIsMergedTwice) {
  ThrowingSink sink(driver_.request().sink, "unlucky");
  xspace::Names names(&sink);
  driver_.request().sink = &sink;
  driver_.request().names = &names;
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  tensorflow::profiler::XSpace space;
  ASSERT_TRUE(space.ParseFromString(Recording(3, /*marked=*/true)));
  auto* const last = space.add_planes();
  last->set_name("/device:CUSTOM:unlucky");
  last->add_lines()->add_events();
  SetTrace(space.SerializeAsString());
  // Ends our session, so that the drain merges it.
  (void)Call("program_traces", {std::string(GetParam().name)});
  EXPECT_THROW(
      while (true) { (void)driver_.Drain(); }, std::bad_alloc);
  (void)driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_LE(driver_.Named("PjitFunction(step)").size(), 3u);
}

TEST_P(ProfilerCollectorTest, NoMoreIsTakenThanACaptureMayKeep) {
  driver_.request().store_bytes = 1000;
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  SetTrace(Recording(200));
  const CollectorReport report = driver_.Stop();
  EXPECT_EQ(report.state, CollectorState::kFailed);
  EXPECT_NE(report.reason.find("JOBSCOPE_STORE_MB"), std::string::npos) << report.reason;
  EXPECT_EQ(report.events, 0u);
}

TEST_P(ProfilerCollectorTest, BytesThatAreNoTraceAreAReason) {
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  SetTrace(Recording(3).substr(0, 90));
  const CollectorReport& report = driver_.Stop();
  EXPECT_EQ(report.state, CollectorState::kFailed);
  EXPECT_NE(report.reason.find("not a complete XSpace"), std::string::npos) << report.reason;
}

TEST_P(ProfilerCollectorTest, OffWithAReason) {
  const auto expect_off = [this](const char* why) {
    EXPECT_TRUE(driver_.Arm().ok());
    EXPECT_EQ(collector_->Describe().state, CollectorState::kOff);
    EXPECT_NE(collector_->Describe().reason.find(why), std::string::npos)
        << collector_->Describe().reason;
    EXPECT_TRUE(driver_.Start().ok());
    EXPECT_EQ(Int("running"), 0);
    EXPECT_TRUE(collector_->Stop(driver_.Now()).ok());
    EXPECT_EQ(collector_->Report().state, CollectorState::kOff);
  };
  driver_.request().recording.frameworks = FrameworkChoice::Parse("none").value();
  expect_off("--frameworks");
  driver_.request().recording.frameworks = FrameworkChoice();
  driver_.request().recording.host_tracer_level = 0;
  expect_off("host_tracer_level");
  driver_.request().recording.host_tracer_level = 2;
  if (IsJax()) {
    Call("load", {int64_t{0}});
    expect_off("has not computed anything yet");
  }
  Call("unload");
  expect_off("has not loaded");
}

TEST_P(ProfilerCollectorTest, EndsBeforeItsStart) {
  ASSERT_TRUE(driver_.Arm().ok());
  EXPECT_TRUE(collector_->Stop(driver_.Now()).ok());
  EXPECT_EQ(collector_->Report().state, CollectorState::kOn);
  EXPECT_EQ(Int("running"), 0);
}

// Of a process that has both, TensorFlow reads the data.
TEST_P(ProfilerCollectorTest, StepsAreThoseOfOneFramework) {
  const std::unique_ptr<Collector> other =
      IsJax() ? MakeTensorflowCollector(Environment()) : MakeJaxCollector(Environment());
  SessionDriver others(other.get(), uses_tsc_);
  ASSERT_TRUE(driver_.Arm().ok());
  ASSERT_TRUE(others.Arm().ok());
  ASSERT_TRUE(driver_.Start().ok());
  SetTrace(Recording(5));
  const CollectorReport& report = driver_.StopAt(driver_.Now() + 1'000'000'000);
  EXPECT_EQ(report.steps, IsJax() ? std::optional<uint64_t>(4) : std::nullopt);
  EXPECT_EQ(report.steps_inferred_from, IsJax() ? "PjitFunction(step)" : "");
  EXPECT_TRUE(other->Stop(others.Now()).ok());
}

INSTANTIATE_TEST_SUITE_P(All, ProfilerCollectorTest, ::testing::ValuesIn(kFrameworks),
                         FrameworkName);

}  // namespace
}  // namespace jobscope
