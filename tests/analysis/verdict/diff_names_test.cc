// SPDX-License-Identifier: Apache-2.0
//
// Tests how `jobscope diff` treats names that only one of the runs has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "analysis/output/diff_output.h"
#include "analysis/verdict/diff.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

class DiffNamesTest : public RunFixture {};

TEST_F(DiffNamesTest, WhatOneRunDoesNotKnowIsAbsentAndNot0) {
  const auto run = [this](bool second) {
    TraceFile trace;
    for (int step = 0; step < 20; ++step) {
      const double begin_ms = 10.0 * step;
      trace.Step(step, begin_ms, begin_ms + 10);
      trace.Event("forward", begin_ms, begin_ms + 6);
      if (!second) continue;
      trace.Event("augment", begin_ms + 6, begin_ms + 9);
      trace.Kernel("sgemm", begin_ms + 1, begin_ms + 5);
    }
    workers_ = json::array();
    AddWorker(0, "node0", trace);
    return DigestsOfRun();
  };
  const Digests before = run(false);
  const Digests after = run(true);
  const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
  const auto named = [](const std::vector<Difference>& differences, const std::string& name) {
    for (const Difference& difference : differences) {
      if (difference.name == name) return difference;
    }
    ADD_FAILURE() << name;
    return Difference();
  };
  const Difference device = named(diff.classes, "device_compute");
  EXPECT_EQ(device.before_ms, std::nullopt);
  EXPECT_NEAR(device.after_ms.value_or(0), 4, 0.01);
  EXPECT_EQ(device.delta_ms(), std::nullopt);
  EXPECT_TRUE(diff.classes.front().delta_ms().has_value()) << "known changes come first";
  const Difference kernel = named(diff.names, "sgemm");
  EXPECT_EQ(kernel.before_ms, std::nullopt);
  EXPECT_NEAR(kernel.after_ms.value_or(0), 4, 0.01);
  EXPECT_EQ(named(diff.names, "augment").before_ms, 0);

  const json written = json::parse(DiffJson(diff));
  for (const json& entry : written["names"]) {
    EXPECT_EQ(entry.contains("before_ms"), entry["name"] != "sgemm") << entry;
    EXPECT_EQ(entry.contains("change_ms"), entry["name"] != "sgemm") << entry;
  }
  EXPECT_THAT(DiffText(diff, 5), testing::ContainsRegex("sgemm +– +4.000 +–"));
}

// More scopes than a digest has room for: what it left out took little, but how much is not known.
TEST_F(DiffNamesTest, WhatADigestLeftOutIsAbsentAndNot0) {
  const auto run = [this](const std::string& name, int kernels) {
    TraceFile trace;
    for (int step = 0; step < 20; ++step) {
      const double begin_ms = 100.0 * step;
      trace.Step(step, begin_ms, begin_ms + 100);
      for (int i = 0; i < 450; ++i) {
        trace.Event("op" + std::to_string(i), begin_ms + 0.1 * i, begin_ms + 0.1 * i + 0.09);
      }
      trace.Event(name, begin_ms + 50, begin_ms + 80);
      for (int i = 0; i < kernels; ++i) {
        trace.Kernel("kernel" + std::to_string(i), begin_ms + 0.1 * i, begin_ms + 0.1 * i + 0.09);
      }
      trace.Kernel("of " + name, begin_ms + 60, begin_ms + 70);
    }
    workers_ = json::array();
    AddWorker(0, "node0", trace);
    return DigestsOfRun();
  };
  const auto row_of = [](const std::string& name, const RunDiff& diff) {
    for (const Difference& difference : diff.names) {
      if (difference.name == name) return difference;
    }
    ADD_FAILURE() << name;
    return Difference();
  };
  const Digests before = run("decode", /*kernels=*/350);
  const Digests after = run("augment", /*kernels=*/350);
  ASSERT_GE(before.workers[0].operators_left_out(), 50u);
  ASSERT_GE(before.workers[0].kernels_left_out(), 50u);
  const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
  for (const bool kernel : {false, true}) {
    const std::string of = kernel ? "of " : "";
    const double ms = kernel ? 10 : 30;
    const Difference was = row_of(of + "decode", diff);
    EXPECT_NEAR(was.before_ms.value_or(0), ms, 0.01);
    EXPECT_EQ(was.after_ms, std::nullopt);
    EXPECT_EQ(was.delta_ms(), std::nullopt);
    const Difference is = row_of(of + "augment", diff);
    EXPECT_EQ(is.before_ms, std::nullopt);
    EXPECT_NEAR(is.after_ms.value_or(0), ms, 0.01);
    EXPECT_NEAR(is.least_change_ms().value_or(0), ms - 0.09, 0.01);
  }
  EXPECT_THAT(diff.names[0].name, testing::AnyOf("augment", "decode")) << "they changed most";
  // It explains the change nevertheless.
  RunDiff changed = diff;
  changed.change = 0.3;
  EXPECT_THAT(DiffText(changed, 5),
              testing::HasSubstr("\nNAME     augment: 30.0 ms per step, before at most 0.0"));
  changed.change = -0.3;
  EXPECT_THAT(DiffText(changed, 5), testing::HasSubstr("\nNAME     decode: at most 0.0"));
  const json written = json::parse(DiffJson(diff));
  for (const json& entry : written["names"]) {
    EXPECT_EQ(entry.contains("before_ms"),
              entry["name"] != "augment" && entry["name"] != "of augment");
    EXPECT_EQ(entry.contains("change_ms"),
              entry.contains("before_ms") && entry.contains("after_ms"));
  }

  // Of the kernels all are known.
  const Digests few = run("decode", /*kernels=*/20);
  const RunDiff from_few = DiffRuns(Reduce(few), Reduce(after), 0.05);
  EXPECT_EQ(row_of("of augment", from_few).before_ms, 0);
  EXPECT_EQ(row_of("augment", from_few).before_ms, std::nullopt);
}

// An earlier revision counted no kernels that it left out.
TEST_F(DiffNamesTest, OfEarlierDigestsThatAreFullOtherKernelsAreNotKnown) {
  const auto run = [this](const std::string& name, int kernels) {
    TraceFile trace;
    for (int step = 0; step < 20; ++step) {
      trace.Step(step, 100.0 * step, 100.0 * step + 100);
      for (int i = 0; i < kernels; ++i) {
        const double begin_ms = 100.0 * step + 0.1 * i;
        trace.Kernel("kernel" + std::to_string(i), begin_ms, begin_ms + 0.09);
      }
      trace.Kernel(name, 100.0 * step + 60, 100.0 * step + 70);
    }
    workers_ = json::array();
    AddWorker(0, "node0", trace);
    Digests digests = DigestsOfRun();
    for (v1::Digest& digest : digests.workers) digest.clear_kernels_left_out();
    return digests;
  };
  const auto time_before = [&](int kernels) {
    const Digests before = run("sgemm", kernels);
    const Digests after = run("dgemm", kernels);
    const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
    for (const Difference& difference : diff.names) {
      if (difference.name == "dgemm") return difference.before_ms;
    }
    ADD_FAILURE() << "dgemm";
    return std::optional<double>();
  };
  EXPECT_EQ(time_before(298), 0);
  EXPECT_EQ(time_before(299), std::nullopt) << "300 kernels: there may have been others";
}

// One of eight ranks computes longer: the others wait, and their waiting is most of the change.

}  // namespace
}  // namespace jobscope::analysis
