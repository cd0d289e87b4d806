// SPDX-License-Identifier: Apache-2.0
//
// Tests the verdicts that lost events and uncertain clocks leave undecided.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class DoubtTest : public RunFixture {
 protected:
  // The verdict if the step threads of `workers` lost so many of 1,000 events each.
  json VerdictWithLosses(const std::vector<size_t>& workers, uint64_t lost) {
    Digests digests = DigestsOfRun();
    for (const size_t w : workers) {
      digests.workers.at(w).set_step_thread_attempted(1000);
      digests.workers.at(w).set_step_thread_lost(lost);
    }
    return json::parse(ReportJson(Reduce(digests)), nullptr, false)["verdict"];
  }
  json VerdictWithLosses(size_t worker, uint64_t lost) {
    return VerdictWithLosses(std::vector<size_t>{worker}, lost);
  }
  static void ExpectLossesDecide(const json& verdict) {
    EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
    EXPECT_THAT(verdict["why_undecidable"].dump(),
                HasSubstr("0.6 % of its step thread's events are lost"));
    EXPECT_THAT(verdict["advice"].dump(),
                AllOf(HasSubstr("how to lose less"), HasSubstr("lost_by_cause")));
  }
};

TEST_F(DoubtTest, LossesOfOneWorker) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    trace.Step(step, step * 10, step * 10 + 10);
    trace.Input(step * 10, step * 10 + 6);
  }
  AddWorker(0, "node0", trace);
  const json certain = VerdictWithLosses(0, 4);
  EXPECT_EQ(certain["finding"], "bound") << certain;
  EXPECT_EQ(certain["class"], "input");
  ExpectLossesDecide(VerdictWithLosses(0, 6));
}

TEST_F(DoubtTest, LossesOfOneOfAllWorkers) {
  AddRanks(4, 40, Jitter, [](int, int) { return 12.0; });
  EXPECT_EQ(VerdictWithLosses(2, 4)["class"], "transfer");
  ExpectLossesDecide(VerdictWithLosses(2, 6));
}

TEST_F(DoubtTest, LossesOfAWorkerWithoutTheClassLeaveItCertain) {
  AddRanks(
      4, 40, [](int rank, int) { return rank == 3 ? 1.0 : 20.0; },
      [](int rank, int) { return rank == 3 ? 39.0 : 20.0; });
  EXPECT_EQ(VerdictWithLosses(3, 6)["class"], "input");
  ExpectLossesDecide(VerdictWithLosses(1, 6));
}

TEST_F(DoubtTest, LossesOfAStraggler) {
  AddRanks(
      4, 40, [](int rank, int) { return rank == 1 ? 30.0 : 5.0; }, [](int, int) { return 50.0; });
  EXPECT_EQ(VerdictWithLosses(1, 4)["workers"], json({"w1"}));
  ExpectLossesDecide(VerdictWithLosses(1, 6));
}

// A device whose kernels are lost seems to wait for the host.
TEST_F(DoubtTest, LossesOfTheGpu) {
  TraceFile trace;
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("forward", begin_ms, begin_ms + 9.5);
    trace.Kernel("gemm", begin_ms + 4, begin_ms + 9);
  }
  AddWorker(0, "node0", trace);
  Digests digests = DigestsOfRun();
  const auto verdict = [&](const std::string& cause) {
    v1::Digest& digest = digests.workers.at(0);
    digest.clear_lost_by_cause();
    (*digest.mutable_lost_by_cause())[cause] = 2;
    return json::parse(ReportJson(Reduce(digests)), nullptr, false)["verdict"];
  };
  EXPECT_EQ(verdict("gpu_unfinished")["class"], "host");
  for (const char* cause : {"cupti_dropped", "gpu_no_timestamp", "gpu_pool", "gpu_unread"}) {
    const json lost = verdict(cause);
    EXPECT_EQ(lost["finding"], "undecidable") << lost;
    EXPECT_EQ(lost.value("why_undecidable", ""),
              "of w0 2 records of its GPU are lost, beside 40 kernels and copies");
    EXPECT_THAT(lost.value("advice", ""), HasSubstr("how to lose less"));
  }
}

// A straggler stands out against the median of the others.
TEST_F(DoubtTest, LossesOfHalfOfTheOthers) {
  AddRanks(
      5, 40, [](int rank, int) { return rank == 1 ? 30.0 : 5.0; }, [](int, int) { return 50.0; });
  EXPECT_EQ(VerdictWithLosses(0, 6)["workers"], json({"w1"}));
  EXPECT_EQ(VerdictWithLosses({0, 3}, 4)["workers"], json({"w1"}));
  const json verdict = VerdictWithLosses({0, 3}, 6);
  ExpectLossesDecide(verdict);
  EXPECT_THAT(verdict["why_undecidable"].get<std::string>(),
              AllOf(StartsWith("w1 stands out, but of w0 0.6 %"), HasSubstr("and 1 more")));
}

TEST_F(DoubtTest, ADoubtBesideTheVerdictComesWithItsAdvice) {
  AddRanks(
      4, 40, [](int rank, int step) { return rank == 1 + 2 * (step % 2) ? 30.0 + 10 * rank : 5.0; },
      [](int, int) { return 50.0; });
  WriteManifest();
  absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok()) << digests.status();
  digests->workers[1].set_step_thread_attempted(1000);
  digests->workers[1].set_step_thread_lost(6);
  const json report = json::parse(ReportJson(Reduce(*digests)), nullptr, false);
  EXPECT_EQ(report["verdict"]["workers"], json({"w3"})) << report["verdict"];
  EXPECT_THAT(report["warnings"].dump(),
              AllOf(HasSubstr("not decidable beside the verdict"), HasSubstr("how to lose less")));
}

TEST_F(DoubtTest, AnEffectBelowTheUncertaintyOfTheClocks) {
  AddRanks(
      4, 40, [](int rank, int) { return rank == 1 ? 30.0 : 5.0; }, [](int, int) { return 50.0; });
  for (json& worker : workers_) worker["clock_uncertainty_ns"] = 20'000'000;
  WriteManifest();
  EXPECT_EQ(ReportOfRun()["verdict"]["workers"], json({"w1"}));
  for (json& worker : workers_) worker["clock_uncertainty_ns"] = 40'000'000;
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict["why_undecidable"].dump(),
              HasSubstr("less than the uncertainty of the clocks, 40.000 ms"));
  EXPECT_THAT(verdict["advice"].dump(), HasSubstr("round trip"));
  EXPECT_THAT(verdict["advice"].dump(), Not(HasSubstr("how to lose less")));
}

// Each worker's steps are measured by its own clock.
TEST_F(DoubtTest, ClocksDecideNothingAmongWorkersThatWaitForNobody) {
  for (int worker = 0; worker < 4; ++worker) {
    TraceFile trace;
    const double step_ms = worker == 3 ? 200 : 100;
    for (int step = 0; step < 40; ++step) {
      trace.Step(step, step * step_ms, step * step_ms + step_ms);
      trace.Input(step * step_ms, step * step_ms + 0.9 * step_ms);
    }
    AddWorker(worker, "node0", trace);
    workers_.back()["clock_uncertainty_ns"] = 500'000'000;
  }
  WriteManifest();
  EXPECT_EQ(ReportOfRun()["verdict"]["workers"], json({"w3"}));
}

TEST_F(DoubtTest, ARunWithoutAReadableTrace) {
  AddMissing("w0", "unreachable", "connection refused");
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict["why_undecidable"].dump(), HasSubstr("connection refused"));
  EXPECT_THAT(verdict.value("advice", ""), HasSubstr("capture again"));
}

// The eighth rank is the slowest, and not in the run: a fix of another one may gain nothing.
TEST_F(DoubtTest, BesideMissingWorkersAGainIsAtMost) {
  AddRanks(8, 40, Jitter, [](int rank, int) {
    return rank == 7 ? 100.0 : rank == 3 ? 60.0 : 50.0;
  });
  WriteManifest();
  json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w7"})) << verdict;
  EXPECT_FALSE(verdict.contains("gain_at_most")) << verdict;
  EXPECT_TRUE(verdict.contains("gain_low")) << verdict;
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("last to arrive at 40 of 40 gloo:all_reduce"));

  std::filesystem::remove(directory_.path() + "/w7.xplane.pb");
  workers_.erase(7);
  AddMissing("w7", "unreachable", "connection refused");
  WriteManifest();
  verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w3"})) << verdict;
  EXPECT_EQ(verdict["gain_at_most"], true) << verdict;
  EXPECT_FALSE(verdict.contains("gain_low")) << verdict;
  EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("at most 1.10x slower"));
  EXPECT_THAT(verdict["why"].dump(),
              HasSubstr("last of the known workers to arrive at 40 of 40 gloo:all_reduce"))
      << "w7 was later";
}

// Half of its time is transfer, or waiting for ranks of which nothing is known.
TEST_F(DoubtTest, OneRankOfManyWaitsOrHasASlowLink) {
  AddRanks(4, 40, Jitter, [](int rank, int) { return rank == 3 ? 100.0 : 50.0; });
  for (int rank = 1; rank < 4; ++rank) {
    std::filesystem::remove(directory_.path() + "/w" + std::to_string(rank) + ".xplane.pb");
  }
  workers_.erase(workers_.begin() + 1, workers_.end());
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict["why_undecidable"].get<std::string>(),
              HasSubstr("w0 spends 53 % of its steps in collectives"));
}

// The numbers of messages differ, so that they cannot be matched; nor do the steps take as long.
TEST_F(DoubtTest, ALongUnmatchedCollectiveIsNoSlowWorker) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    const double blocked_ms = rank == 3 ? 60 : 10;
    const double step_ms = 20 + blocked_ms;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = step * step_ms;
      trace.Step(step, begin_ms, begin_ms + step_ms);
      trace.Event("forward", begin_ms, begin_ms + 20);
      for (int i = 0; i <= rank; ++i) {
        const double part_ms = blocked_ms / (rank + 1);
        trace.Event("gloo:send", begin_ms + 20 + i * part_ms, begin_ms + 20 + (i + 1) * part_ms, {},
                    {}, "/device:CUSTOM:async");
      }
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict["why_undecidable"].get<std::string>(),
              HasSubstr("w3 spends 75 % of its steps in collectives"));
}

// One rank waits for its input, and the others probably for that rank: no collectives are recorded.
TEST_F(DoubtTest, WhatOneOfManySpendsIsNotABoundOfAll) {
  for (int rank = 0; rank < 8; ++rank) {
    TraceFile trace;
    const double input_ms = rank == 5 ? 85 : 5;
    for (int step = 0; step < 40; ++step) {
      trace.Step(step, step * 100, step * 100 + 100);
      trace.Input(step * 100, step * 100 + input_ms);
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "balanced") << verdict;
  EXPECT_EQ(verdict["class"], "unexplained") << verdict;
  EXPECT_THAT(verdict["text"].get<std::string>(),
              HasSubstr("no worker of 8 takes much longer per step than the others"));
}

TEST_F(DoubtTest, WhatTheOthersDoNotRecordIsNot0) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = step * 90;
      const double arrival_ms = begin_ms + (rank == 1 ? 80 : 50);
      Stats stats;
      if (rank == 1) stats.emplace_back("run_delay_ns", 40'000'000);
      trace.Step(step, begin_ms, begin_ms + 90, stats);
      trace.Event("forward", begin_ms, arrival_ms);
      trace.AllReduce(step, arrival_ms, begin_ms + 90);
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w1"})) << verdict;
  EXPECT_EQ(verdict["class"], "not_running");
  EXPECT_FALSE(verdict.contains("class_others_ms"));
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("not running 40.0 ms per step, 44 % of 90.0 ms"));
}

// Ranks that compute for 50 ms on their devices, and rank 1 for longer or after an input wait.
// Those that `has_kernels` tells of record it; in the others nothing covers that time, except the
// first `host_ms` of rank 1.
class KernelsOfSomeTest : public DoubtTest {
 protected:
  json Verdict(double input_ms, double compute_ms, const std::function<bool(int)>& has_kernels,
               double host_ms = 0) {
    for (int rank = 0; rank < 4; ++rank) {
      TraceFile trace;
      for (int step = 0; step < 40; ++step) {
        const double begin_ms = step * 90;
        const double ready_ms = begin_ms + (rank == 1 ? input_ms : 0);
        const double arrival_ms = ready_ms + (rank == 1 ? compute_ms : 50) + Jitter(rank, step);
        trace.Step(step, begin_ms, begin_ms + 90);
        if (ready_ms > begin_ms) trace.Input(begin_ms, ready_ms);
        if (has_kernels(rank)) trace.Kernel("gemm", ready_ms, arrival_ms);
        if (rank == 1 && host_ms > 0) trace.Event("forward", ready_ms, ready_ms + host_ms);
        trace.AllReduce(step, arrival_ms, begin_ms + 90);
      }
      AddWorker(rank, "node0", trace);
    }
    WriteManifest();
    const json verdict = ReportOfRun()["verdict"];
    EXPECT_EQ(verdict["workers"], json({"w1"})) << verdict;
    return verdict;
  }
};

TEST_F(KernelsOfSomeTest, KernelsThatTheSlowRankAloneRecordsAreNotItsExcess) {
  EXPECT_EQ(Verdict(30, 50, [](int rank) { return rank == 1; })["class"], "input");
}

TEST_F(KernelsOfSomeTest, KernelsThatTheSlowRankAloneLacksAreNotItsExcess) {
  EXPECT_EQ(Verdict(30, 50, [](int rank) { return rank != 1; })["class"], "input");
}

TEST_F(KernelsOfSomeTest, TimeThatMayBeThatOfKernelsIsNotComparedWithTheOthers) {
  const json verdict = Verdict(0, 80, [](int rank) { return rank != 1; });
  EXPECT_EQ(verdict["class"], "unexplained") << verdict;
  EXPECT_FALSE(verdict.contains("class_others_ms")) << verdict;
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("not recorded here: device compute (others 50."));
}

// Neither of its two classes alone takes longer than the kernels of the others.
TEST_F(KernelsOfSomeTest, TimeInSeveralClassesThatMayBeThatOfKernelsIsOneExcess) {
  const json verdict = Verdict(
      0, 80, [](int rank) { return rank != 1; }, /*host_ms=*/45);
  EXPECT_EQ(verdict["class"], "host") << verdict;
  EXPECT_NEAR(verdict["class_ms"].get<double>(), 45, 0.001);
  EXPECT_FALSE(verdict.contains("class_others_ms")) << verdict;
  EXPECT_THAT(verdict["why"].dump(),
              AllOf(HasSubstr("host work 45.0 ms per step, 50 % of 90.0 ms"),
                    HasSubstr("not recorded here: device compute (others 50."),
                    HasSubstr("ms per step); part of this may be")));
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("find what it does beyond"));
}

TEST_F(KernelsOfSomeTest, ASmallExcessDoesNotHideOneOfSeveralClasses) {
  const json verdict = Verdict(
      5, 75, [](int rank) { return rank != 1; }, /*host_ms=*/40);
  EXPECT_EQ(verdict["class"], "host") << verdict;
}

// Ranks 2 and 3 record no kernels, either.
TEST_F(KernelsOfSomeTest, OfOthersWithoutKernelsTheWholeTimeCounts) {
  const json verdict = Verdict(0, 80, [](int rank) { return rank == 0; });
  EXPECT_EQ(verdict["class"], "unexplained") << verdict;
  EXPECT_NEAR(verdict["class_ms"].get<double>(), 80.45, 0.01);
}

TEST_F(KernelsOfSomeTest, AKernelIsComparedWithTheWorkersThatRecordKernels) {
  const json verdict = Verdict(0, 80, [](int rank) { return rank < 2; });
  EXPECT_EQ(verdict["class"], "device_compute") << verdict;
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("device compute 80.5 ms per step (others 50.5 ms)"));
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("gemm 80.5 ms per step (others 50.5 ms)"));
}

// Ranks of which the last one takes the longest, but in no class longer than the others' median.
class NoClassTest : public DoubtTest {
 protected:
  struct Work {
    double input_ms = 0;
    double gc_ms = 0;
    double kernel_ms = 0;
    double unexplained_ms = 0;
  };
  // `once`: in step 17 only; in the others they take equally long.
  json Verdict(const std::vector<Work>& ranks, bool once = false) {
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      TraceFile trace;
      double begin_ms = 5;
      for (int step = 0; step < 40; ++step) {
        const bool is_short = once && step != 17;
        const Work work = is_short ? Work{0, 0, 0, 1.8} : ranks[rank];
        const double end_ms = begin_ms + (is_short ? 2 : 65);
        const double ready_ms = begin_ms + work.input_ms;
        const double collected_ms = ready_ms + work.gc_ms;
        const double computed_ms = collected_ms + work.kernel_ms;
        trace.Step(step, begin_ms, end_ms);
        if (work.input_ms > 0) trace.Input(begin_ms, ready_ms);
        if (work.gc_ms > 0) trace.Event("gc", ready_ms, collected_ms);
        if (work.kernel_ms > 0) trace.Kernel("gemm", collected_ms, computed_ms);
        trace.AllReduce(step, computed_ms + work.unexplained_ms, end_ms);
        begin_ms = end_ms;
      }
      AddWorker(static_cast<int>(rank), "node0", trace);
    }
    WriteManifest();
    const json verdict = ReportOfRun()["verdict"];
    EXPECT_EQ(verdict["workers"], json({"w3"})) << verdict;
    EXPECT_FALSE(verdict.contains("class")) << verdict;
    EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("no cause recorded"));
    return verdict;
  }
};

TEST_F(NoClassTest, OfRanksThatRecordDifferentClassesTheAdviceIsToRecordTheSame) {
  const json verdict = Verdict({{20, 20, 0, 0}, {20, 0, 20, 0}, {0, 20, 20, 0}, {19, 19, 0, 19}});
  EXPECT_THAT(verdict["advice"].get<std::string>(),
              HasSubstr("capture all workers with the same collectors; if it were median: "));
}

TEST_F(NoClassTest, OfRanksThatRecordTheSameTheAdviceIsToCompareThem) {
  const json verdict = Verdict({{20, 20, 0, 0}, {20, 0, 0, 20}, {0, 20, 0, 20}, {19, 19, 0, 19}});
  EXPECT_THAT(verdict["advice"].get<std::string>(),
              HasSubstr("no class of its own time takes longer than the others' median; if it were "
                        "median"));
}

TEST_F(NoClassTest, ASingleStepIsCalledOne) {
  const json verdict =
      Verdict({{20, 20, 0, 0}, {20, 0, 0, 20}, {0, 20, 0, 20}, {19, 19, 0, 19}}, /*once=*/true);
  EXPECT_EQ(verdict["single_step"], 17) << verdict;
  EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("one step is slow: step 17 on rank 3"));
  EXPECT_THAT(verdict["advice"].get<std::string>(), StartsWith("without it: "))
      << "classes_ms is of all steps";
}

}  // namespace
}  // namespace jobscope::analysis
