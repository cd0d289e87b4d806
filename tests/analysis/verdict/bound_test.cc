// SPDX-License-Identifier: Apache-2.0
//
// Tests which class of time bounds all workers alike, and which runs stay undecided.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;

class BoundTest : public RunFixture {};

TEST_F(BoundTest, EqualRanksAreBalanced) {
  AddRanks(8, 40, Jitter, [](int, int) { return 50.0; });
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "balanced") << report["verdict"];
  EXPECT_EQ(report["verdict"]["workers"], json::array());
  EXPECT_FALSE(report["verdict"].contains("gain"));
  EXPECT_FALSE(report["verdict"].contains("latest"));
}

// With a device the computation is the device's, and host work beside it is what a fix gains.
TEST_F(BoundTest, EqualRanksWhoseDevicesIdleAreHostBound) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = step * 50;
      trace.Step(step, begin_ms, begin_ms + 50);
      trace.Event("forward", begin_ms, begin_ms + 46 + 0.1 * Jitter(rank, step));
      trace.Kernel("gemm", begin_ms + 20, begin_ms + 46);
      trace.AllReduce(step, begin_ms + 46 + 0.1 * Jitter(rank, step), begin_ms + 50);
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "bound") << verdict;
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_EQ(verdict["workers"], json::array());
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.4, 0.01);
  EXPECT_NEAR(verdict["device_idle_ms"].get<double>(), 20, 0.2);
}

// Rank 0 records no kernels: its device may compute while its host works.
TEST_F(BoundTest, HostWorkOfARankWithoutKernelsIsNoGain) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = step * 50;
      trace.Step(step, begin_ms, begin_ms + 50);
      trace.Event("forward", begin_ms, begin_ms + 46 + 0.1 * Jitter(rank, step));
      if (rank > 0) trace.Kernel("gemm", begin_ms + 20, begin_ms + 46);
      trace.AllReduce(step, begin_ms + 46 + 0.1 * Jitter(rank, step), begin_ms + 50);
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "host") << verdict;
  EXPECT_EQ(verdict["workers"], json::array()) << verdict;
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.4, 0.01) << verdict;
  EXPECT_NEAR(verdict["class_ms"].get<double>(), 20, 0.2) << verdict;
  EXPECT_NEAR(verdict["device_idle_ms"].get<double>(), 20, 0.2) << verdict;
}

TEST_F(BoundTest, ASlowLinkSlowsAllAndBlamesNobody) {
  AddRanks(4, 40, Jitter, [](int, int) { return 12.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "bound") << verdict;
  EXPECT_EQ(verdict["class"], "transfer");
  EXPECT_EQ(verdict["workers"], json::array());
}

// The same ten steps, one of them with a slow transfer: more equal ranks are not more samples.
TEST_F(BoundTest, TheIntervalOfABoundDoesNotDependOnTheNumberOfRanks) {
  std::vector<json> verdicts;
  for (const int ranks : {2, 32, 80}) {
    workers_ = json::array();
    std::vector<TraceFile> traces(static_cast<size_t>(ranks));
    double begin_ms = 5;
    for (int step = 0; step < 10; ++step) {
      const double end_ms = begin_ms + 31 + (step == 4 ? 200 : 5);
      for (int rank = 0; rank < ranks; ++rank) {
        TraceFile& trace = traces[static_cast<size_t>(rank)];
        const double arrival_ms = begin_ms + 30 + 0.1 * Jitter(rank, step);
        trace.Step(step, begin_ms, end_ms);
        trace.Event("forward", begin_ms, arrival_ms);
        trace.AllReduce(step, arrival_ms, end_ms);
      }
      begin_ms = end_ms;
    }
    for (int rank = 0; rank < ranks; ++rank) {
      AddWorker(rank, "node0", traces[static_cast<size_t>(rank)]);
    }
    WriteManifest();
    verdicts.push_back(ReportOfRun()["verdict"]);
  }
  for (const json& verdict : verdicts) {
    EXPECT_EQ(verdict["class"], "transfer") << verdict;
    for (const char* end : {"gain_low", "gain_high"}) {
      EXPECT_NEAR(verdict[end].get<double>(), verdicts[0][end].get<double>(), 0.1) << verdict;
    }
  }
}

// Of workers that do not wait for each other each weighs the same, however many steps it has.
TEST_F(BoundTest, AGainLiesInItsInterval) {
  const auto add = [this](int rank, int steps, double step_ms, double input_ms) {
    TraceFile trace;
    for (int step = 0; step < steps; ++step) {
      const double begin_ms = step * step_ms;
      trace.Event(absl::StrCat("train", rank), begin_ms, begin_ms + step_ms,
                  {{"_r", 1}, {"step_num", step}});
      trace.Input(begin_ms, begin_ms + input_ms + Jitter(rank, step) * step_ms / 100);
      trace.Event("forward", begin_ms + input_ms + step_ms / 10, begin_ms + step_ms);
    }
    AddWorker(rank, "node0", trace);
  };
  add(0, 1000, 10, 4);
  add(1, 10, 1000, 150);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  ASSERT_EQ(verdict["finding"], "bound") << verdict;
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.16, 0.01) << verdict;
  EXPECT_LE(verdict["gain_low"], verdict["gain"]) << verdict;
  EXPECT_GE(verdict["gain_high"], verdict["gain"]) << verdict;
}

TEST_F(BoundTest, ASlowLinkComesBeforeAStragglerThatIsWorthLittle) {
  AddRanks(
      4, 30, [](int, int) { return 0.5; },
      [](int rank, int step) { return (rank == 1 ? 2.6 : 1.0) + 0.05 * (step % 3); });
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "bound");
  EXPECT_EQ(report["verdict"]["class"], "transfer");
  ASSERT_EQ(report["findings"].size(), 2u);
  EXPECT_EQ(report["findings"][1]["workers"], json({"w1"}));
}

TEST_F(BoundTest, IdleDevicesComeBeforeAStragglerThatIsWorthLittle) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = step * 50;
      const double arrival_ms = begin_ms + (rank == 1 ? 47 : 44) + 0.02 * Jitter(rank, step);
      trace.Step(step, begin_ms, begin_ms + 50);
      trace.Event("forward", begin_ms, arrival_ms);
      trace.Kernel("gemm", begin_ms + 20, arrival_ms);
      trace.AllReduce(step, arrival_ms, begin_ms + 50);
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "bound") << report["verdict"];
  EXPECT_EQ(report["verdict"]["class"], "host");
  ASSERT_EQ(report["findings"].size(), 2u);
  EXPECT_EQ(report["findings"][1]["finding"], "straggler");
  EXPECT_EQ(report["findings"][1]["workers"], json({"w1"}));
}

// With a worker missing it could be that one for which all wait.
TEST_F(BoundTest, AMissingRankMayBeTheSlowOne) {
  AddRanks(4, 40, Jitter, [](int, int) { return 12.0; });
  AddMissing("w4", "unreachable", "connection refused");
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "undecidable");
  EXPECT_EQ(report["missing"],
            json({{{"worker", "w4"}, {"reason", "unreachable: connection refused"}}}));
  EXPECT_THAT(report["sure"].get<std::string>(), HasSubstr("4 of 5 workers (w4: unreachable"));
}

// Of four members, two are in the run: the other two may be the slow ones.
TEST_F(BoundTest, MembersOutsideTheRunMayBeTheSlowOnes) {
  for (int rank = 0; rank < 2; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = step * 90;
      const double arrival_ms = begin_ms + 30 + Jitter(rank, step);
      trace.Step(step, begin_ms, begin_ms + 90);
      trace.Event("forward", begin_ms, arrival_ms);
      trace.Event("gloo:all_reduce", arrival_ms, begin_ms + 90,
                  {{"sequence", step}, {"group_size", 4}}, {{"process_group", "0"}},
                  "/device:CUSTOM:async");
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict["why_undecidable"].get<std::string>(), HasSubstr("members are not recorded"));
}

TEST_F(BoundTest, TooFewCommonStepsAreNotDecidable) {
  AddRanks(
      4, 7, [](int rank, int) { return rank == 1 ? 30 : 5; }, [](int, int) { return 50.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable");
  EXPECT_THAT(verdict["why_undecidable"].get<std::string>(), HasSubstr("at most 7 steps"));
  EXPECT_FALSE(verdict.contains("gain"));
}

// A rank whose marks of steps are missing is among those for which the others wait.
TEST_F(BoundTest, ARankWithoutStepsMayBeTheSlowOne) {
  AddRanks(3, 40, Jitter, [](int, int) { return 12.0; });
  TraceFile trace;
  for (int step = 0; step < 40; ++step) {
    trace.AllReduce(step, 5 + step * 21 + 12, 5 + step * 21 + 20);
  }
  AddWorker(3, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "undecidable") << report["verdict"];
  EXPECT_THAT(report["verdict"]["why_undecidable"].get<std::string>(),
              HasSubstr("1 of 4 workers are missing or recorded too few steps"));
}

TEST_F(BoundTest, OnlyWorkersThatAreComparedAreCounted) {
  AddRanks(4, 40, Jitter, [](int, int) { return 50.0; });
  TraceFile trace;
  trace.Event("forward", 0, 10);
  AddWorker(4, "node1", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("no worker of 4 ")) << verdict;
}

}  // namespace
}  // namespace jobscope::analysis
