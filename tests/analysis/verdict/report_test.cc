// SPDX-License-Identifier: Apache-2.0
//
// From files to the answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "analysis/output/report_text.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;

double Jitter(int rank, int step) { return ((rank * 7 + step * 13) % 10) * 0.1; }

class ReportTest : public RunFixture {};

TEST_F(ReportTest, TheSlowLoaderOfOneRankOfEight) {
  AddRanks(
      8, 40, [](int rank, int step) { return (rank == 5 ? 45 : 5) + Jitter(rank, step); },
      [](int, int) { return 50.0; });
  WriteManifest();
  const json report = ReportOfRun();
  const json& verdict = report["verdict"];
  EXPECT_EQ(verdict["finding"], "straggler") << report.dump(1);
  EXPECT_EQ(verdict["workers"], json({"w5"}));
  EXPECT_EQ(verdict["class"], "input");
  EXPECT_EQ(verdict["names"], json({"next_batch"}));
  EXPECT_NEAR(verdict["step_ms"].get<double>(), 103.45, 0.5);
  EXPECT_NEAR(verdict["mended_step_ms"].get<double>(), 63.9, 0.6);
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.385, 0.01);
  EXPECT_EQ(report["steps"]["common"], 40);
  EXPECT_EQ(report["steps"]["aligned_by"], "number");
  const json& collective = report["collectives"][0];
  EXPECT_EQ(collective["name"], "gloo:all_reduce");
  EXPECT_EQ(collective["count"], 40);
  EXPECT_EQ(collective["matched"], 40);
  EXPECT_EQ(collective["last"], json({{"w5", 40}}));
  EXPECT_NEAR(collective["transfer_ms"].get<double>(), 40 * 8, 0.01);
  // The fast ranks wait for the slow one; that one does not wait.
  const json& workers = report["workers"];
  EXPECT_NEAR(workers[0]["classes_ms"]["waiting"].get<double>(), 40, 1);
  EXPECT_NEAR(workers[5]["classes_ms"]["waiting"].get<double>(), 0, 0.01);
  EXPECT_NEAR(workers[5]["classes_ms"]["transfer"].get<double>(), 8, 0.01);
  for (const json& worker : workers) {
    double sum = 0;
    for (const json& ms : worker["classes_ms"]) sum += ms.get<double>();
    EXPECT_NEAR(sum, worker["mean_ms"].get<double>(), 1e-4);
  }
}

// The wait counts as a whole and comes first; what is slow inside it is named behind it.
TEST_F(ReportTest, NamesInsideAnInputWaitAreNamed) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 20; ++step) {
      const double begin_ms = step * 100;
      const double input_ms = rank == 1 ? 45 : 5;
      trace.Step(step, begin_ms, begin_ms + 100);
      trace.Input(begin_ms, begin_ms + input_ms);
      trace.Event("decode", begin_ms + 1, begin_ms + input_ms - 1);
      if (rank == 1) trace.Event("resize", begin_ms + 10, begin_ms + 40);
      trace.Event("decode", begin_ms + input_ms, begin_ms + input_ms + 2);  // in no wait
      trace.Event("forward", begin_ms + input_ms + 2, begin_ms + input_ms + 42);
      trace.AllReduce(step, begin_ms + input_ms + 42, begin_ms + 95);
    }
    trace.Source("resize", "images.py:17");
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json report = ReportOfRun();
  const json& verdict = report["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w1"}));
  EXPECT_EQ(verdict["class"], "input");
  EXPECT_EQ(verdict["names"], json({"next_batch", "resize", "decode"})) << verdict;
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("next_batch 45.0 ms per step (others 5.00 ms)"));
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("resize 30.0 ms per step"));
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("images.py:17"));
}

TEST_F(ReportTest, SlowHostWorkIsNoInput) {
  AddRanks(
      4, 30, [](int rank, int step) { return 5 + Jitter(rank, step); },
      [](int rank, int) { return rank == 2 ? 80.0 : 50.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w2"}));
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_EQ(verdict["names"], json({"forward"}));
}

// An all_reduce is called and left to run; the program waits for it in a scope, or in none.
TEST_F(ReportTest, AScopeThatWaitsForACollectiveHidesNoStraggler) {
  const auto verdict = [&](const std::string& scope) {
    const std::string path = directory_.path() + "/run_" + scope;
    std::filesystem::create_directory(path);
    MadeRun run(path);
    std::vector<TraceFile> traces(4);
    double begin_ms = 5;
    for (int step = 0; step < 20; ++step) {
      const double end_ms = begin_ms + 66;
      for (int rank = 0; rank < 4; ++rank) {
        TraceFile& trace = traces[static_cast<size_t>(rank)];
        const double arrival_ms = begin_ms + 30 + (rank + step) % 4 * 0.1 + (rank == 2 ? 30 : 0);
        trace.Step(step, begin_ms, end_ms);
        trace.Event("forward", begin_ms, arrival_ms);
        trace.AllReduce(step, arrival_ms, end_ms);
        if (!scope.empty()) trace.Event(scope, arrival_ms + 0.1, end_ms + 0.05);
      }
      begin_ms = end_ms;
    }
    for (int rank = 0; rank < 4; ++rank) {
      run.AddWorker(rank, "node0", traces[static_cast<size_t>(rank)]);
    }
    run.WriteManifest();
    return ReportOf(path)["verdict"];
  };
  const json without = verdict("");
  EXPECT_EQ(without["workers"], json({"w2"})) << without;
  for (const char* scope : {"wait_grads", "finish_grads"}) {
    const json with = verdict(scope);
    for (const char* field : {"finding", "workers", "class"}) {
      EXPECT_EQ(with[field], without[field]) << scope << " " << with;
    }
    EXPECT_NEAR(with["gain"].get<double>(), without["gain"].get<double>(), 0.01) << scope;
  }
}

TEST_F(ReportTest, EqualRanksAreBalanced) {
  AddRanks(8, 40, Jitter, [](int, int) { return 50.0; });
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "balanced") << report["verdict"];
  EXPECT_EQ(report["verdict"]["workers"], json::array());
  EXPECT_FALSE(report["verdict"].contains("gain"));
  EXPECT_FALSE(report["verdict"].contains("latest"));
}

TEST_F(ReportTest, OneOfTwoNodesIsSlow) {
  AddRanks(8, 40, Jitter, [](int rank, int) { return rank < 4 ? 50.0 : 75.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "straggler") << verdict;
  EXPECT_EQ(verdict["node"], "node1");
  EXPECT_EQ(verdict["workers"], json({"w4", "w5", "w6", "w7"}));
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.30, 0.01);
}

// Tensor parallelism: pairs that reduce at the same time, then all together.
TEST_F(ReportTest, GroupsThatTransferAtTheSameTime) {
  std::vector<TraceFile> traces(32);
  double begin_ms = 5;
  for (int step = 0; step < 40; ++step) {
    const auto arrival_ms = [&](int rank) {
      return begin_ms + (rank == 5 ? 40 : 20) + 0.2 * Jitter(rank, step);
    };
    const auto pair_end_ms = [&](int rank) {
      return std::max(arrival_ms(rank), arrival_ms(rank ^ 1)) + 8;
    };
    double end_ms = 0;
    for (int rank = 0; rank < 32; ++rank) end_ms = std::max(end_ms, pair_end_ms(rank) + 0.5);
    for (int rank = 0; rank < 32; ++rank) {
      TraceFile& trace = traces[static_cast<size_t>(rank)];
      trace.Step(step, begin_ms, end_ms);
      trace.Event("forward", begin_ms, arrival_ms(rank));
      trace.AllReduce(step, arrival_ms(rank), pair_end_ms(rank), "pair" + std::to_string(rank / 2));
      trace.AllReduce(step, pair_end_ms(rank), end_ms, "all");
    }
    begin_ms = end_ms;
  }
  for (int rank = 0; rank < 32; ++rank) {
    AddWorker(rank, "node" + std::to_string(rank / 4), traces[static_cast<size_t>(rank)]);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w5"})) << verdict;
  EXPECT_NEAR(verdict["step_ms"].get<double>(), 48.6, 0.2);
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.41, 0.02);
  EXPECT_NEAR(verdict["gain_low"].get<double>(), 0.41, 0.02);
}

// The second stage of a pipeline begins when the first one has ended: 20 ms, then 30.
TEST_F(ReportTest, OfStagesInARowTheGainIsALimit) {
  TraceFile first;
  TraceFile second;
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = 5 + step * 51;
    first.Step(step, begin_ms, begin_ms + 51);
    first.Event("forward", begin_ms, begin_ms + 20);
    first.AllReduce(step, begin_ms + 20, begin_ms + 20.1, "send");
    first.AllReduce(step, begin_ms + 20.1, begin_ms + 51, "all");
    second.Step(step, begin_ms, begin_ms + 51);
    second.AllReduce(step, begin_ms, begin_ms + 20.1, "send");
    second.Event("forward", begin_ms + 20.1, begin_ms + 50.1);
    second.AllReduce(step, begin_ms + 50.1, begin_ms + 51, "all");
  }
  AddWorker(0, "node0", first);
  AddWorker(1, "node0", second);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w1"})) << verdict;
  EXPECT_NEAR(verdict["step_ms"].get<double>(), 51, 0.1);
  EXPECT_NEAR(verdict["gain"].get<double>(), 10.0 / 51, 0.005);
  EXPECT_EQ(verdict["gain_at_most"], true);
  EXPECT_FALSE(verdict.contains("gain_low")) << verdict;
  EXPECT_FALSE(verdict.contains("gain_high")) << verdict;
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("41.0 ms (at most -20 %)"));
}

TEST_F(ReportTest, TheRankThatIsLateInAFewStepsIsNamed) {
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

TEST_F(ReportTest, RanksThatTakeTurnsInBeingLate) {
  AddRanks(8, 40, Jitter,
           [](int rank, int step) { return step % 10 == 7 && rank == step / 10 ? 350.0 : 50.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "waiting") << verdict;
  EXPECT_EQ(verdict["workers"], json::array());
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("they take turns in being late"));
}

// With three late steps of 40, none may be among those of another capture.
TEST_F(ReportTest, OneThatIsLateTooRarelyForAVerdictIsNamedInTheAdvice) {
  AddRanks(16, 40, Jitter, [](int rank, int step) {
    return rank == 3 && step % 10 == 7 && step < 30 ? 370.0 : 50.0;
  });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "waiting") << verdict;
  EXPECT_EQ(verdict["workers"], json::array());
  EXPECT_THAT(verdict["advice"].get<std::string>(),
              HasSubstr("most of it is caused by rank 3 (node0), in 3 of 40 steps"));
  EXPECT_EQ(verdict["latest"], json({"w3"}));
  EXPECT_EQ(verdict["late_steps"], 3);
}

// The clocks tell the last arrival of one collective only.
TEST_F(ReportTest, TheLastArrivalIsOneOfAllCollectives) {
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

TEST_F(ReportTest, ASlowLinkSlowsAllAndBlamesNobody) {
  AddRanks(4, 40, Jitter, [](int, int) { return 12.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "bound") << verdict;
  EXPECT_EQ(verdict["class"], "transfer");
  EXPECT_EQ(verdict["workers"], json::array());
}

// The same ten steps, one of them with a slow transfer: more equal ranks are not more samples.
TEST_F(ReportTest, TheIntervalOfABoundDoesNotDependOnTheNumberOfRanks) {
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

TEST_F(ReportTest, ASlowLinkComesBeforeAStragglerThatIsWorthLittle) {
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

// With a worker missing it could be that one for which all wait.
TEST_F(ReportTest, AMissingRankMayBeTheSlowOne) {
  AddRanks(4, 40, Jitter, [](int, int) { return 12.0; });
  AddMissing("w4", "unreachable", "connection refused");
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "undecidable");
  EXPECT_EQ(report["missing"],
            json({{{"worker", "w4"}, {"reason", "unreachable: connection refused"}}}));
  EXPECT_THAT(report["sure"].get<std::string>(), HasSubstr("4 of 5 workers (w4: unreachable"));
}

// As PyTorch's collector records NCCL: the call carries group and sequence number, and ends when
// the kernel is enqueued.
void AddNccl(TraceFile* trace, int64_t sequence, double arrival_ms, double end_ms) {
  trace->Event("nccl:all_reduce (enqueue)", arrival_ms - 2, arrival_ms - 1.9,
               {{"sequence", sequence}, {"group_size", 4}}, {{"process_group", "0"}},
               sequence % 2 == 0 ? "/device:CUSTOM:async" : "/host:CPU");
  trace->Event("cudaStreamSynchronize", arrival_ms - 1.5, end_ms);
  trace->Kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", arrival_ms, end_ms, 8);
}

TEST_F(ReportTest, TheKernelIsTheCollectiveNotItsEnqueue) {
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

// In turns one rank is late at a barrier, which has no sequence number; the all_reduce before it
// has.
TEST_F(ReportTest, CollectivesWithoutSequenceAreMatchedBesideOthers) {
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

// Of four members, two are in the run: the other two may be the slow ones.
TEST_F(ReportTest, MembersOutsideTheRunMayBeTheSlowOnes) {
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

TEST_F(ReportTest, AnEvaluatorIsNoSlowRank) {
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

TEST_F(ReportTest, StepsThatAreNumberedDifferentlyAreAlignedByCollectives) {
  AddRanks(
      4, 30, [](int rank, int step) { return (rank == 1 ? 30 : 5) + Jitter(rank, step); },
      [](int, int) { return 50.0; }, /*number_of_rank=*/1000);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["steps"]["aligned_by"], "collectives");
  EXPECT_EQ(report["steps"]["common"], 30);
  EXPECT_EQ(report["verdict"]["workers"], json({"w1"}));
}

TEST_F(ReportTest, TooFewCommonStepsAreNotDecidable) {
  AddRanks(
      4, 7, [](int rank, int) { return rank == 1 ? 30 : 5; }, [](int, int) { return 50.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable");
  EXPECT_THAT(verdict["why_undecidable"].get<std::string>(), HasSubstr("at most 7 steps"));
  EXPECT_FALSE(verdict.contains("gain"));
}

// Of ranks whose numbers never meet, a longer capture knows no more.
TEST_F(ReportTest, StepsWithoutANumberInCommonAreToBeNumberedAlike) {
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

TEST_F(ReportTest, OneWorkerThatWaitsForInput) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Input(begin_ms, begin_ms + 6);
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("forward", begin_ms + 6, begin_ms + 9);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "bound");
  EXPECT_EQ(report["verdict"]["class"], "input");
  EXPECT_NEAR(report["verdict"]["gain"].get<double>(), 0.6, 0.001);
  EXPECT_NEAR(report["workers"][0]["classes_ms"]["host"].get<double>(), 3, 0.001);
  EXPECT_NEAR(report["workers"][0]["classes_ms"]["unexplained"].get<double>(), 1, 0.001);
  EXPECT_FALSE(report["workers"][0]["classes_ms"].contains("device_compute"));
}

// What is nested within a compilation, as Python's tracers record it, belongs to it.
TEST_F(ReportTest, RecompilationIsNamedWithItsFunction) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("PjitFunction(update)", begin_ms, begin_ms + 9);
    trace.Event("$pxla.py:1209 compile", begin_ms, begin_ms + 8);
    trace.Event("trace_to_jaxpr", begin_ms, begin_ms + 1);
    trace.Event("backend_compile_and_load", begin_ms + 2, begin_ms + 8);
    trace.Event("$compiler.py:292 backend_compile_and_load", begin_ms + 2, begin_ms + 8);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "compilation");
  EXPECT_NEAR(verdict["class_ms"].get<double>(), 7, 0.001);
  EXPECT_EQ(verdict["names"][0], "backend_compile_and_load of PjitFunction(update)");
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("6.00 ms per step, 20 times"));
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("jax.log_compiles"));
}

TEST_F(ReportTest, RetracingOfTensorFlowIsACompilation) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    trace.Step(step, step * 10, step * 10 + 10);
    trace.Event("update", step * 10, step * 10 + 9);
    trace.Event("tf.function-graph_building", step * 10, step * 10 + 6);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["class"], "compilation");
  EXPECT_EQ(verdict["names"][0], "tf.function-graph_building of update");
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("reduce_retracing"));
}

// A lock, a socket: nothing is recorded of it but that the thread neither ran nor wanted to.
TEST_F(ReportTest, OneWorkerThatSleepsForWhoKnowsWhat) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    trace.Step(step, step * 10, step * 10 + 10,
               {{"cpu_ns", 2'000'000}, {"run_delay_ns", 1'000'000}});
    trace.Event("forward", step * 10, step * 10 + 3);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["class"], "unexplained");
  EXPECT_NEAR(report["verdict"]["asleep_ms"].get<double>(), 7, 0.001);
  EXPECT_NEAR(report["workers"][0]["asleep_ms"].get<double>(), 7, 0.001);
  EXPECT_THAT(report["verdict"]["why"].dump(), HasSubstr("sleeps for 7.00 ms per step"));
}

TEST_F(ReportTest, OneWorkerWhoseDeviceIsBusy) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Input(begin_ms, begin_ms + 6);  // hidden behind the device
    trace.Kernel("gemm", begin_ms, begin_ms + 8);
    trace.Kernel("MemcpyHtoD", begin_ms + 2, begin_ms + 9, 8);
    trace.Kernel("gemm_on_another_stream", begin_ms + 3, begin_ms + 4, 9);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["class"], "device_compute") << report["verdict"];
  const json& classes = report["workers"][0]["classes_ms"];
  EXPECT_NEAR(classes["device_compute"].get<double>(), 8, 0.001);
  EXPECT_NEAR(classes["device_copy"].get<double>(), 1, 0.001);
  EXPECT_NEAR(classes["input"].get<double>(), 0, 0.001);
  EXPECT_EQ(report["kernels"][0]["name"], "gemm");
  EXPECT_EQ(report["kernels"][0]["count"], 20);
}

TEST_F(ReportTest, NoStepsIsAnAnswer) {
  TraceFile trace;
  trace.Event("forward", 0, 10);
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "undecidable");
  EXPECT_EQ(report["operators"][0]["name"], "forward");
  EXPECT_FALSE(report["workers"][0].contains("mean_ms"));
}

TEST_F(ReportTest, SelfTimeIsExclusive) {
  TraceFile trace;
  for (int step = 0; step < 10; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("outer", begin_ms + 1, begin_ms + 9);
    trace.Event("inner", begin_ms + 2, begin_ms + 5);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const json report = ReportOfRun();
  for (const json& row : report["operators"]) {
    if (row["name"] == "outer") {
      EXPECT_NEAR(row["self_ms"].get<double>(), 50, 0.001);
      EXPECT_NEAR(row["total_ms"].get<double>(), 80, 0.001);
      EXPECT_EQ(row["count"], 10);
    }
  }
}

TEST_F(ReportTest, TheTerminalHasAHundredColumnsAndNoControlCharacters) {
  AddRanks(
      4, 30, [](int rank, int step) { return (rank == 1 ? 30 : 5) + Jitter(rank, step); },
      [](int, int) { return 50.0; });
  TraceFile trace;
  trace.Event("\x1b[2J</script>\n" + std::string(300, 'x'), 0, 10);
  AddWorker(9, "node\x1b[31m", trace);
  WriteManifest();
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const std::string text = ReportText(Reduce(*digests));
  EXPECT_EQ(text.rfind("VERDICT", 0), 0u) << text;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace jobscope::analysis
