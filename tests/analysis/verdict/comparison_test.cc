// SPDX-License-Identifier: Apache-2.0
//
// Which collectives, steps and workers are compared.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "analysis/verdict/verdict_text.h"
#include "tensorflow/xplane.pb.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;

class ComparisonTest : public RunFixture {};

// As PyTorch's collector records NCCL: the call carries group and sequence number, and ends when
// the kernel is enqueued.
void AddNccl(TraceFile* trace, int64_t sequence, double arrival_ms, double end_ms) {
  trace->Event("nccl:all_reduce (enqueue)", arrival_ms - 2, arrival_ms - 1.9,
               {{"sequence", sequence}, {"group_size", 4}}, {{"process_group", "0"}},
               sequence % 2 == 0 ? "/device:CUSTOM:async" : "/host:CPU");
  trace->Event("cudaStreamSynchronize", arrival_ms - 1.5, end_ms);
  trace->Kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", arrival_ms, end_ms, 8);
}

TEST_F(ComparisonTest, TheKernelIsTheCollectiveNotItsEnqueue) {
  std::vector<TraceFile> traces(4);
  double begin_ms = 5;
  for (int step = 0; step < 40; ++step) {
    const double end_ms = begin_ms + 90;
    for (int rank = 0; rank < 4; ++rank) {
      TraceFile& trace = traces[static_cast<size_t>(rank)];
      const double arrival_ms = begin_ms + 30 + 0.1 * Jitter(rank, step) + (rank == 2 ? 30 : 0);
      trace.Step(step, begin_ms, end_ms);
      trace.Kernel("gemm", begin_ms + 1, arrival_ms);
      AddNccl(&trace, step, arrival_ms, end_ms);
    }
    begin_ms = end_ms;
  }
  for (int rank = 0; rank < 4; ++rank) AddWorker(rank, "node0", traces[static_cast<size_t>(rank)]);
  WriteManifest();
  const json report = ReportOfRun();
  const json& verdict = report["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w2"}));
  EXPECT_NEAR(verdict["gain"].get<double>(), 1.0 / 3, 0.01) << verdict;
  EXPECT_NEAR(report["workers"][0]["classes_ms"]["waiting"].get<double>(), 30, 0.1);
  ASSERT_EQ(report["collectives"].size(), 1u) << report["collectives"];
  EXPECT_EQ(report["collectives"][0]["matched"], 40);
}

// Four ranks in pairs, then each with one of the other pair; all of it is all_reduce.
class GroupsTest : public ComparisonTest {
 protected:
  json ReportOfPairs(bool with_launches) {
    for (int rank = 0; rank < 4; ++rank) {
      TraceFile trace;
      int64_t sequence = 0;
      const auto reduce = [&](const std::string& group, double call_ms, double end_ms) {
        const int64_t correlation = 1000 * (rank + 1) + sequence;
        trace.Event("nccl:all_reduce (enqueue)", call_ms - 0.5, call_ms,
                    {{"sequence", sequence / 2}, {"group_size", 2}}, {{"process_group", group}},
                    "/device:CUSTOM:async");
        Stats launch;
        if (with_launches) launch.emplace_back("correlation_id", correlation);
        trace.Event("Launch ncclDevKernel_AllReduce_Sum_f32_RING_LL", call_ms - 0.3, call_ms - 0.1,
                    launch);
        trace.Event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", call_ms, end_ms, launch, {},
                    "/device:GPU:0", 8);
        ++sequence;
      };
      for (int step = 0; step < 20; ++step) {
        const double begin_ms = 5 + step * 90;
        const double arrival_ms = begin_ms + (rank >= 2 ? 60 : 30);
        trace.Step(step, begin_ms, begin_ms + 90);
        trace.Kernel("gemm", begin_ms, arrival_ms);
        reduce("pair" + std::to_string(rank / 2), arrival_ms + 1, arrival_ms + 2);
        reduce("across" + std::to_string(rank % 2), arrival_ms + 3, begin_ms + 89);
      }
      AddWorker(rank, "node0", trace);
    }
    WriteManifest();
    return ReportOfRun();
  }
};

TEST_F(GroupsTest, AKernelHasTheGroupOfTheCallThatLaunchedIt) {
  const json report = ReportOfPairs(/*with_launches=*/true);
  std::map<std::string, json> rows;
  for (const json& row : report["collectives"]) rows[row.value("process_group", "")] = row;
  ASSERT_EQ(rows.size(), 4u) << report["collectives"];
  for (const char* group : {"pair0", "pair1", "across0", "across1"}) {
    EXPECT_EQ(rows[group]["count"], 20) << group;
    EXPECT_EQ(rows[group]["matched"], 20) << group;
  }
  EXPECT_NEAR(rows["across0"]["wait_ms"].get<double>(), 20 * 30, 1);
  EXPECT_NEAR(rows["pair0"]["wait_ms"].get<double>(), 0, 1);
  EXPECT_EQ(rows["across1"]["last"], json({{"w3", 20}}));
}

TEST_F(GroupsTest, KernelsOfSeveralGroupsAreNotMatchedByTheirOrder) {
  const json report = ReportOfPairs(/*with_launches=*/false);
  ASSERT_EQ(report["collectives"].size(), 1u) << report["collectives"];
  EXPECT_EQ(report["collectives"][0]["matched"], 0);
  EXPECT_THAT(report["warnings"].dump(),
              HasSubstr("w0: 40 kernels of collectives belong to one of several process groups"));
}

// In turns one rank is late at a barrier, which has no sequence number; the all_reduce before it
// has.
TEST_F(ComparisonTest, CollectivesWithoutSequenceAreMatchedBesideOthers) {
  std::vector<TraceFile> traces(4);
  double begin_ms = 5;
  for (int step = 0; step < 40; ++step) {
    const double end_ms = begin_ms + 7 + 60 + 0.5;
    for (int rank = 0; rank < 4; ++rank) {
      TraceFile& trace = traces[static_cast<size_t>(rank)];
      const double arrival_ms = begin_ms + 7 + (rank == step % 4 ? 60 : 30);
      trace.Step(step, begin_ms, end_ms);
      trace.Event("forward", begin_ms, begin_ms + 5);
      trace.AllReduce(step, begin_ms + 5, begin_ms + 7);
      trace.Event("backward", begin_ms + 7, arrival_ms);
      trace.Event("gloo:barrier", arrival_ms, end_ms, {}, {}, "/device:CUSTOM:async");
    }
    begin_ms = end_ms;
  }
  for (int rank = 0; rank < 4; ++rank) AddWorker(rank, "node0", traces[static_cast<size_t>(rank)]);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["class"], "waiting") << report["verdict"];
  EXPECT_NEAR(report["workers"][0]["classes_ms"]["waiting"].get<double>(), 0.75 * 30, 0.1);
  EXPECT_NEAR(report["workers"][0]["classes_ms"]["transfer"].get<double>(), 2.5, 0.1);
}

TEST_F(ComparisonTest, AnEvaluatorIsNoSlowRank) {
  AddRanks(4, 40, Jitter, [](int, int) { return 50.0; });
  TraceFile evaluator;
  for (int step = 100; step < 120; ++step) {
    evaluator.Step(step, 200 * step, 200 * step + 200);
    evaluator.Event("evaluate", 200 * step, 200 * step + 199);
  }
  AddWorker(4, "node0", evaluator);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "balanced") << report["verdict"];
  EXPECT_THAT(report["verdict"]["text"].get<std::string>(), HasSubstr("no worker of 4 "));
  EXPECT_EQ(report["steps"]["common"], 40);
  EXPECT_THAT(report["warnings"].dump(), HasSubstr("w4 shares no collective"));
}

// The other rank has too few steps to be compared with: only its collectives match the first one's.
TEST_F(ComparisonTest, AnEvaluatorIsNoRankOfALoneOne) {
  std::vector<TraceFile> ranks(2);
  TraceFile evaluator;
  for (int step = 0; step < 40; ++step) {
    for (int rank = 0; rank < (step < 5 ? 2 : 1); ++rank) {
      ranks[static_cast<size_t>(rank)].Step(step, 50 * step, 50 * step + 50);
      ranks[static_cast<size_t>(rank)].Event("forward", 50 * step, 50 * step + 40);
      ranks[static_cast<size_t>(rank)].AllReduce(step, 50 * step + 40, 50 * step + 50);
    }
    evaluator.Event("eval_step", 150 * step, 150 * step + 150, {{"_r", 1}, {"step_num", step}});
    evaluator.Event("evaluate", 150 * step, 150 * step + 149);
  }
  AddWorker(0, "node0", ranks[0]);
  AddWorker(1, "node0", ranks[1]);
  AddWorker(2, "node0", evaluator);
  WriteManifest();
  const json report = ReportOfRun();
  for (const json& finding : report["findings"]) {
    EXPECT_NE(finding["finding"], "straggler") << finding;
  }
  EXPECT_NE(report["verdict"]["finding"], "straggler") << report["verdict"];
}

TEST_F(ComparisonTest, StepsThatAreNumberedDifferentlyAreAlignedByCollectives) {
  AddRanks(
      4, 30, [](int rank, int step) { return (rank == 1 ? 30 : 5) + Jitter(rank, step); },
      [](int, int) { return 50.0; }, /*number_of_rank=*/1000);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["steps"]["aligned_by"], "collectives");
  EXPECT_EQ(report["steps"]["common"], 30);
  EXPECT_EQ(report["verdict"]["workers"], json({"w1"}));
}

// Of ranks whose numbers never meet, a longer capture knows no more.
TEST_F(ComparisonTest, StepsWithoutANumberInCommonAreToBeNumberedAlike) {
  for (int rank = 0; rank < 2; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 20; ++step) {
      trace.Step(100 * rank + step, 50 * step, 50 * step + 50);
      trace.AllReduce(step, 50 * step + 20 + rank * 10, 50 * step + 50);
    }
    AddWorker(rank, "node0", trace);
  }
  for (int rank = 2; rank < 4; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 20; ++step) {
      trace.Step(100 * rank + step, 50 * step, 50 * step + 50);
      trace.Event("gloo:send", 50 * step + 20, 50 * step + 50, {}, {}, "/device:CUSTOM:async");
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("number the steps alike"));
}

// Steps of two jobs, or of one: 40 ms of work in the first half of the workers, 80 ms in the other.
class TwoHalvesTest : public ComparisonTest {
 protected:
  json VerdictOfHalves(int ranks_per_job) {
    for (int w = 0; w < 8; ++w) {
      TraceFile trace;
      for (int step = 0; step < 40; ++step) {
        const double begin_ms = 5 + step * 100;
        const double arrival_ms = begin_ms + (w < 4 ? 40 : 80) + Jitter(w, step);
        trace.Step(step, begin_ms, begin_ms + 100);
        trace.Event("forward", begin_ms, arrival_ms);
        trace.AllReduce(step, arrival_ms, begin_ms + 100);
      }
      AddWorker(w, "node" + std::to_string(w / 4), trace);
      workers_.back()["rank"] = w % ranks_per_job;
    }
    WriteManifest();
    return ReportOfRun()["verdict"];
  }
};

TEST_F(TwoHalvesTest, OfOneJobTheSecondIsSlow) {
  const json verdict = VerdictOfHalves(8);
  EXPECT_EQ(verdict["finding"], "straggler") << verdict;
  EXPECT_EQ(verdict["node"], "node1");
}

TEST_F(TwoHalvesTest, OfTwoJobsNoneWaitsForTheOther) {
  const json verdict = VerdictOfHalves(4);
  EXPECT_NE(verdict["finding"], "straggler") << verdict;
  EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("takes much longer per step"));
}

// The names of two workers tell which one is meant.
TEST_F(ComparisonTest, AWorkerWhoseRankOccursTwiceIsNamed) {
  AddRanks(
      4, 30, [](int rank, int step) { return (rank == 1 ? 30 : 5) + Jitter(rank, step); },
      [](int, int) { return 50.0; });
  workers_[3]["rank"] = 1;
  for (json& worker : workers_) worker["host"] = "node0";
  WriteManifest();
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok()) << digests.status();
  const Report report = Reduce(*digests);
  std::set<std::string> titles;
  for (const WorkerRow& row : report.workers) titles.insert(TitleOf(row));
  EXPECT_EQ(titles, std::set<std::string>({"rank 0 (node0)", "rank 1 (node0, w1)",
                                           "rank 1 (node0, w3)", "rank 2 (node0)"}));
}

class IndependentTest : public ComparisonTest {
 protected:
  void Add(int worker, const std::string& step_name, double step_ms, int steps = 40) {
    TraceFile trace;
    for (int step = 0; step < steps; ++step) {
      const double begin_ms = step * step_ms;
      trace.Event(step_name, begin_ms, begin_ms + step_ms, {{"_r", 1}, {"step_num", step}});
      trace.Event("work", begin_ms, begin_ms + 0.9 * step_ms);
    }
    AddWorker(worker, "node0", trace);
    workers_.back()["executable"] = "/usr/bin/python3";
  }
  json Verdict() {
    WriteManifest();
    return ReportOfRun()["verdict"];
  }
};

TEST_F(IndependentTest, ALongerStepOfTheSameNameIsSlow) {
  Add(0, "train", 100);
  Add(1, "train", 200);
  EXPECT_EQ(Verdict()["workers"], json({"w1"}));
}

// In the time of 200 steps of the other.
TEST_F(IndependentTest, ASlowOneWithTooFewStepsIsNotDecidable) {
  Add(0, "train", 10, 200);
  Add(1, "train", 330, 6);
  const json verdict = Verdict();
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_EQ(verdict["why_undecidable"],
            "w1 takes 330.0 ms per step, the others 10.0 ms, but recorded only 6 steps, and at "
            "least 8 are needed");
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("capture longer"));
}

TEST_F(IndependentTest, ASlowOneWithTooFewStepsIsWarnedOfBesideASlowOne) {
  Add(0, "train", 10, 200);
  Add(1, "train", 10, 200);
  Add(2, "train", 20, 100);
  Add(3, "train", 330, 6);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["workers"], json({"w2"})) << report["verdict"];
  EXPECT_THAT(report["warnings"].dump(), HasSubstr("w3 takes 330.0 ms per step"));
}

TEST_F(IndependentTest, FewStepsOfTheSameTimeDoNotCount) {
  Add(0, "train", 10, 200);
  Add(1, "train", 11, 6);
  Add(2, "evaluate", 330, 6);
  const json verdict = Verdict();
  EXPECT_EQ(verdict["workers"], json({"w0"})) << verdict;
}

TEST_F(IndependentTest, StepsOfAnotherNameAreNotCompared) {
  Add(0, "train", 100);
  Add(1, "evaluate", 200);
  EXPECT_EQ(Verdict()["finding"], "balanced");
}

TEST_F(IndependentTest, OfThreeTheFastOneMakesNoOtherSlow) {
  Add(0, "train", 100);
  Add(1, "train", 100);
  Add(2, "train", 50);
  EXPECT_EQ(Verdict()["finding"], "balanced");
}

// Only some of them record kernels, in which they compute.
class IndependentGpusTest : public ComparisonTest {
 protected:
  void Add(int worker, double input_ms, double compute_ms, bool has_kernels) {
    TraceFile trace;
    const double step_ms = input_ms + compute_ms + 2;
    for (int step = 0; step < 40; ++step) {
      const double ready_ms = step * step_ms + input_ms;
      trace.Step(step, step * step_ms, (step + 1) * step_ms);
      if (input_ms > 0) trace.Input(step * step_ms, ready_ms);
      trace.Event("forward", ready_ms, ready_ms + compute_ms);
      if (has_kernels) trace.Kernel("gemm", ready_ms, ready_ms + compute_ms);
    }
    AddWorker(worker, "node0", trace);
  }
  json Verdict() {
    WriteManifest();
    return ReportOfRun()["verdict"];
  }
};

// It takes longer than the middle one of the others, as a whole but in no class.
TEST_F(IndependentGpusTest, NoClassOfASlowOneIsNoLackOfClasses) {
  Add(0, 20, 5, false);
  Add(1, 5, 20, false);
  Add(2, 20, 20, false);
  Add(3, 18, 18, false);
  WriteManifest();
  const std::string report = ReportOfRun().dump();
  EXPECT_EQ(report.find("do not record the same classes"), std::string::npos) << report;
}

TEST_F(IndependentGpusTest, KernelsThatOneAloneRecordsAreNotItsExcess) {
  for (int worker = 0; worker < 3; ++worker) Add(worker, 0, 15, false);
  Add(3, 13, 15, true);
  const json verdict = Verdict();
  EXPECT_EQ(verdict["workers"], json({"w3"})) << verdict;
  EXPECT_EQ(verdict["class"], "input");
}

TEST_F(IndependentGpusTest, WithoutKernelsOfTheOthersTheClassIsNotKnown) {
  for (int worker = 0; worker < 3; ++worker) Add(worker, 0, 15, false);
  Add(3, 0, 30, true);
  const json verdict = Verdict();
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict["why_undecidable"].dump(),
              HasSubstr("w3 takes 32.0 ms per step, the others 17.0 ms"));
  EXPECT_THAT(verdict["advice"].dump(), HasSubstr("same collectors"));
}

TEST_F(IndependentGpusTest, WithoutItsKernelsTheClassIsNotKnown) {
  for (int worker = 0; worker < 3; ++worker) Add(worker, 0, 15, true);
  Add(3, 0, 30, false);
  EXPECT_EQ(Verdict()["finding"], "undecidable");
}

TEST_F(IndependentGpusTest, ThoseWithoutKernelsDoNotCount) {
  for (int worker = 0; worker < 3; ++worker) Add(worker, 0, 15, worker == 0);
  Add(3, 0, 30, true);
  const json verdict = Verdict();
  EXPECT_EQ(verdict["class"], "device_compute") << verdict;
  EXPECT_EQ(verdict["class_others_ms"], 15.0) << verdict;
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("gemm 30.0 ms per step (others 15.0 ms)"));
}

// Only 15 of 40 steps are common; in the others rank 1 is far slower.
TEST_F(ComparisonTest, WhatTheOthersWaitIsThatOfTheCommonSteps) {
  AddRanks(4, 40, Jitter, [](int rank, int step) {
    return rank != 1 ? 50.0 : step < 25 ? 500.0 : 80.0;
  });
  WriteManifest();
  tensorflow::profiler::XSpace space;
  const std::string path = directory_.path() + "/w2.xplane.pb";
  ASSERT_TRUE(space.ParseFromString(ReadAll(path)));
  for (auto& plane : *space.mutable_planes()) {
    auto* events = plane.mutable_lines(0)->mutable_events();
    events->DeleteSubrange(0, events->size() * 25 / 40);
  }
  directory_.Write("w2.xplane.pb", space.SerializeAsString());
  const json report = ReportOfRun();
  EXPECT_EQ(report["steps"]["common"], 15);
  EXPECT_EQ(report["verdict"]["workers"], json({"w1"}));
  EXPECT_THAT(report["verdict"]["why"].dump(), HasSubstr("the others wait 30.0 ms of 88."))
      << report["verdict"];
}

}  // namespace
}  // namespace jobscope::analysis
