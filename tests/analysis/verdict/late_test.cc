// SPDX-License-Identifier: Apache-2.0
//
// Tests verdicts on workers that are late in a few steps only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;

class LateTest : public RunFixture {};

TEST_F(LateTest, TheRankThatIsLateInAFewStepsIsNamed) {
  AddRanks(8, 40, Jitter,
           [](int rank, int step) { return rank == 3 && step % 10 == 7 ? 350.0 : 50.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "straggler") << verdict;
  EXPECT_EQ(verdict["workers"], json({"w3"}));
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_NEAR(verdict["gain"].get<double>(), 1200.0 / (40 * 88.8), 0.01);
  EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("in 4 of 40 steps: rank 3 (node0)"));
  EXPECT_EQ(verdict["late_steps"], 4);
}

TEST_F(LateTest, RanksThatTakeTurnsInBeingLate) {
  AddRanks(8, 40, Jitter,
           [](int rank, int step) { return step % 10 == 7 && rank == step / 10 ? 350.0 : 50.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "waiting") << verdict;
  EXPECT_EQ(verdict["workers"], json::array());
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("they take turns in being late"));
}

// With three late steps of 40, none may be among those of another capture.
TEST_F(LateTest, OneThatIsLateTooRarelyForAVerdictIsNamedInTheAdvice) {
  AddRanks(16, 40, Jitter, [](int rank, int step) {
    return rank == 3 && step % 10 == 7 && step < 30 ? 370.0 : 50.0;
  });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "waiting") << verdict;
  EXPECT_EQ(verdict["workers"], json::array());
  EXPECT_THAT(verdict["advice"].get<std::string>(),
              HasSubstr("most of it is caused by rank 3 (node0), in 3 of 40 steps"));
  EXPECT_THAT(verdict["text"].get<std::string>(),
              HasSubstr("all 16 workers: bound by waiting, waiting for others takes"));
  EXPECT_EQ(verdict["latest"], json({"w3"}));
  EXPECT_EQ(verdict["late_steps"], 3);
}

// Four all_reduces per step, before each of which others are late (pipeline stages, experts): in a
// whole step all work as long.
class WaitsWithinTheStepTest : public LateTest {
 protected:
  // `work_ms(rank, step, part)`, of which the share `on_device` is a kernel.
  json Verdict(const std::function<double(int, int, int)>& work_ms, double on_device,
               double transfer_ms) {
    std::vector<TraceFile> traces(8);
    double begin_ms = 5;
    for (int step = 0; step < 40; ++step) {
      const double step_begin_ms = begin_ms;
      for (int part = 0; part < 4; ++part) {
        double last_ms = 0;
        for (int rank = 0; rank < 8; ++rank) {
          last_ms = std::max(last_ms, begin_ms + work_ms(rank, step, part));
        }
        const double end_ms = last_ms + transfer_ms;
        for (int rank = 0; rank < 8; ++rank) {
          TraceFile& trace = traces[static_cast<size_t>(rank)];
          const double arrival_ms = begin_ms + work_ms(rank, step, part);
          const double ready_ms = begin_ms + on_device * (arrival_ms - begin_ms);
          if (on_device > 0) trace.Kernel("gemm", begin_ms, ready_ms);
          trace.Event("forward", ready_ms, arrival_ms);
          trace.AllReduce(step * 4 + part, arrival_ms, end_ms);
        }
        begin_ms = end_ms;
      }
      for (TraceFile& trace : traces) trace.Step(step, step_begin_ms, begin_ms);
    }
    for (int rank = 0; rank < 8; ++rank) {
      AddWorker(rank, "node0", traces[static_cast<size_t>(rank)]);
    }
    WriteManifest();
    return ReportOfRun()["verdict"];
  }
};

// One long event causes none of it.
TEST_F(WaitsWithinTheStepTest, AreCausedByNobody) {
  const json verdict = Verdict(
      [](int rank, int step, int part) {
        const bool is_long = rank == 3 && step == 17 && part == 0;
        return ((rank + part) % 4 < 2 ? 5 : 15) + 0.1 * Jitter(rank, step) + (is_long ? 10 : 0);
      },
      /*on_device=*/0, /*transfer_ms=*/0.2);
  EXPECT_EQ(verdict["class"], "waiting") << verdict;
  EXPECT_NEAR(verdict["class_ms"].get<double>() / verdict["step_ms"].get<double>(), 0.33, 0.02);
  EXPECT_FALSE(verdict.contains("latest")) << verdict;
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("they wait within the step"));
}

TEST_F(WaitsWithinTheStepTest, AreReportedAsTheNextClassToo) {
  const json verdict =
      Verdict([](int rank, int step,
                 int part) { return ((rank + part) % 4 < 2 ? 5.2 : 9) + 0.1 * Jitter(rank, step); },
              /*on_device=*/0.8, /*transfer_ms=*/1.4);
  EXPECT_EQ(verdict["finding"], "balanced") << verdict;
  EXPECT_EQ(verdict["class"], "device_compute");
  EXPECT_THAT(verdict["why"].back().get<std::string>(), HasSubstr("then waiting for others"));
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("they wait within the step"));
}

// One that recorded too few steps for a comparison may be the one for which they wait.
TEST_F(WaitsWithinTheStepTest, MayBeForAWorkerThatIsNotCompared) {
  const auto verdict = [this] {
    return Verdict(
        [](int rank, int step, int part) {
          const bool is_late = rank == 3 && step % 10 == 7 && step < 30 && part == 0;
          return 6 + 0.1 * Jitter(rank, step) + (is_late ? 84 : 0);
        },
        /*on_device=*/0.81, /*transfer_ms=*/1.1);
  };
  const json of_all = verdict();
  EXPECT_EQ(of_all["finding"], "balanced") << of_all;
  EXPECT_EQ(of_all["next_class"], "waiting") << of_all;
  EXPECT_EQ(of_all["latest"], json({"w3"})) << of_all;

  workers_ = json::array();
  TraceFile trace;
  for (int step = 0; step < 3; ++step) trace.Step(step, 5 + step * 35, 5 + step * 35 + 35);
  AddWorker(8, "node1", trace);
  const json beside_one = verdict();
  EXPECT_EQ(beside_one["next_class"], "waiting") << beside_one;
  EXPECT_FALSE(beside_one.contains("latest")) << beside_one;
  EXPECT_THAT(beside_one["advice"].get<std::string>(), HasSubstr("may not be in this run"));
}

// The clocks tell the last arrival of one collective only.
TEST_F(LateTest, TheLastArrivalIsOneOfAllCollectives) {
  AddRanks(
      4, 40, [](int, int) { return 1.0; },
      [](int rank, int step) { return rank != 2   ? 30.0
                                      : step == 7 ? 60.0
                                                  : 36.0; });
  for (json& worker : workers_) worker["clock_uncertainty_ns"] = 4'000'000;
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w2"})) << verdict;
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("last to arrive at 1 of 40 gloo:all_reduce"));
}

// Rank 2 takes 900 ms longer in one of 40 steps. `record` adds what the trace tells of these: from
// `begin_ms` on.
class OneSlowStepTest : public LateTest {
 protected:
  json Verdict(const std::function<void(double begin_ms, TraceFile* trace)>& record) {
    for (int rank = 0; rank < 4; ++rank) {
      TraceFile trace;
      double begin_ms = 5;
      for (int step = 0; step < 40; ++step) {
        const double extra_ms = step == 17 ? 900 : 0;
        const double arrival_ms = begin_ms + 50 + Jitter(rank, step) + (rank == 2 ? extra_ms : 0);
        trace.Step(100 + step, begin_ms, begin_ms + 60 + extra_ms);
        trace.Event("forward", begin_ms, begin_ms + 50);
        if (rank == 2 && extra_ms > 0) record(begin_ms + 50, &trace);
        trace.AllReduce(step, arrival_ms, begin_ms + 60 + extra_ms);
        begin_ms += 60 + extra_ms;
      }
      AddWorker(rank, "node0", trace);
    }
    WriteManifest();
    const json verdict = ReportOfRun()["verdict"];
    EXPECT_EQ(verdict["workers"], json({"w2"})) << verdict;
    EXPECT_EQ(verdict["single_step"], 117) << verdict;
    return verdict;
  }
};

TEST_F(OneSlowStepTest, TheLargestNameOfTheClassIsNamed) {
  const json verdict = Verdict([](double begin_ms, TraceFile* trace) {
    trace->Event("save_checkpoint", begin_ms, begin_ms + 900);
  });
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_EQ(verdict["names"], json({"save_checkpoint"})) << verdict;
}

TEST_F(OneSlowStepTest, WhatIsInsideAnInputWaitIsInput) {
  const json verdict = Verdict([](double begin_ms, TraceFile* trace) {
    trace->Input(begin_ms, begin_ms + 900);
    trace->Event("decode", begin_ms + 1, begin_ms + 899);
  });
  EXPECT_EQ(verdict["class"], "input");
  EXPECT_EQ(verdict["names"], json({"decode"})) << verdict;
}

// The largest name of the step took the time that it always takes.
TEST_F(OneSlowStepTest, UnexplainedTimeHasNoName) {
  const json verdict = Verdict([](double, TraceFile*) {});
  EXPECT_EQ(verdict["class"], "unexplained");
  EXPECT_EQ(verdict["names"], json::array()) << verdict;
}

TEST_F(OneSlowStepTest, ANameOfTheHostExplainsNoKernel) {
  const json verdict = Verdict(
      [](double begin_ms, TraceFile* trace) { trace->Kernel("gemm", begin_ms, begin_ms + 900); });
  EXPECT_EQ(verdict["class"], "device_compute");
  EXPECT_EQ(verdict["names"], json::array()) << verdict;
  EXPECT_EQ(verdict["why"].back(), "device compute 900 ms in step 117");
}

TEST_F(OneSlowStepTest, ANameOfAnotherClassExplainsNothing) {
  const json verdict = Verdict([](double begin_ms, TraceFile* trace) {
    for (int i = 0; i < 100; ++i) {
      const std::string name = "IteratorGetNext batch " + std::to_string(i);
      trace->Event(name, begin_ms + 9 * i, begin_ms + 9 * i + 9);
    }
  });
  EXPECT_EQ(verdict["class"], "input");
  EXPECT_EQ(verdict["names"], json::array()) << verdict;
}

TEST_F(OneSlowStepTest, ASmallShareOfTheClassExplainsNothing) {
  const json verdict = Verdict([](double begin_ms, TraceFile* trace) {
    for (int i = 0; i < 15; ++i) {
      trace->Event("part " + std::to_string(i), begin_ms + 60 * i, begin_ms + 60 * i + 60);
    }
  });
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_EQ(verdict["names"], json::array()) << verdict;
}

}  // namespace
}  // namespace jobscope::analysis
