// SPDX-License-Identifier: Apache-2.0
//
// Tests which worker is blamed, and the gain of a fix.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;

class StragglerTest : public RunFixture {};

TEST_F(StragglerTest, TheSlowLoaderOfOneRankOfEight) {
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
TEST_F(StragglerTest, NamesInsideAnInputWaitAreNamed) {
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

TEST_F(StragglerTest, SlowHostWorkIsNoInput) {
  AddRanks(
      4, 30, [](int rank, int step) { return 5 + Jitter(rank, step); },
      [](int rank, int) { return rank == 2 ? 80.0 : 50.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w2"}));
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_EQ(verdict["names"], json({"forward"}));
}

TEST_F(StragglerTest, SlowKernelsOfOneRank) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    const double arrival_ms = rank == 2 ? 80 : 50;
    for (int step = 0; step < 30; ++step) {
      const double begin_ms = step * 90;
      trace.Step(step, begin_ms, begin_ms + 90);
      trace.Kernel("gelu", begin_ms, begin_ms + 20);
      trace.Kernel("gemm_f16", begin_ms + 20, begin_ms + arrival_ms + Jitter(rank, step));
      trace.AllReduce(step, begin_ms + arrival_ms + Jitter(rank, step), begin_ms + 89);
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w2"})) << verdict;
  EXPECT_EQ(verdict["class"], "device_compute");
  EXPECT_EQ(verdict["names"], json({"gemm_f16"}));
  EXPECT_NEAR(verdict["class_ms"].get<double>(), 80.4, 0.5);
  EXPECT_NEAR(verdict["class_others_ms"].get<double>(), 50.4, 0.5);
}

// Ranks that compute on GPUs, of which ranks 2 and 5 take longer.
class LimitTest : public StragglerTest {
 protected:
  json Verdict(const std::function<std::string(int)>& model,
               const std::function<void(int, double, TraceFile*)>& count) {
    for (int rank = 0; rank < 8; ++rank) {
      TraceFile trace;
      trace.PlaneText("/device:GPU:0", "gpu_device_name", model(rank));
      const double arrival_ms = rank == 2 || rank == 5 ? 80 : 50;
      for (int step = 0; step < 30; ++step) {
        const double begin_ms = step * 90;
        trace.Step(step, begin_ms, begin_ms + 90);
        trace.Kernel("gemm", begin_ms, begin_ms + arrival_ms + Jitter(rank, step));
        trace.AllReduce(step, begin_ms + arrival_ms + Jitter(rank, step), begin_ms + 89);
        count(rank, begin_ms, &trace);
      }
      AddWorker(rank, "node" + std::to_string(rank / 4), trace);
    }
    WriteManifest();
    return ReportOfRun()["verdict"];
  }
};

TEST_F(LimitTest, HeatThatSlowsAGpuIsTheCause) {
  const json verdict = Verdict([](int) { return "H100"; },
                               [](int rank, double at_ms, TraceFile* trace) {
                                 const bool hot = rank == 2 || rank == 5;
                                 trace->GpuCounter("clocks limited by heat", at_ms, hot ? 1 : 0);
                                 trace->GpuCounter("SM clock (MHz)", at_ms, hot ? 1200 : 1980);
                               });
  EXPECT_EQ(verdict["workers"], json({"w2", "w5"})) << verdict;
  EXPECT_EQ(verdict["class"], "device_compute");
  EXPECT_THAT(verdict["why"].dump(),
              HasSubstr("their GPU's clocks are limited by heat in 100 % of the samples "
                        "(others 0 %)"));
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("their GPU runs at 1200 MHz (others 1980)"));
  EXPECT_THAT(verdict["advice"].dump(), HasSubstr("cool the GPU"));
}

TEST_F(LimitTest, EqualGpusAreNoCauseAndTheDeviceIsNotCalledWellUsed) {
  const json verdict = Verdict([](int) { return "H100"; },
                               [](int rank, double at_ms, TraceFile* trace) {
                                 trace->GpuCounter("clocks limited by heat", at_ms, 1);
                                 trace->GpuCounter("SM clock (MHz)", at_ms, 1900 + rank);
                               });
  EXPECT_EQ(verdict["class"], "device_compute") << verdict;
  EXPECT_THAT(verdict["why"].dump(), testing::Not(HasSubstr("GPU")));
  EXPECT_THAT(verdict["advice"].dump(), HasSubstr("compare its device"));
  EXPECT_THAT(verdict["advice"].dump(), testing::Not(HasSubstr("well used")));
}

TEST_F(LimitTest, AModelOfGpuThatIsSlowIsOneFinding) {
  const json verdict = Verdict([](int rank) { return rank == 2 || rank == 5 ? "A100" : "H100"; },
                               [](int, double, TraceFile*) {});
  EXPECT_EQ(verdict["workers"], json({"w2", "w5"})) << verdict;
  EXPECT_EQ(verdict["gpu_model"], "A100");
  EXPECT_FALSE(verdict.contains("node"));
  EXPECT_THAT(verdict["text"].dump(), HasSubstr("GPU model A100 (2 workers), device compute"));
}

TEST_F(StragglerTest, AQuotaOfCpuIsTheCauseOfNotRunning) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 30; ++step) {
      const double begin_ms = step * 60;
      const double arrival_ms = begin_ms + (rank == 1 ? 50 : 20) + Jitter(rank, step);
      trace.Step(step, begin_ms, begin_ms + 60,
                 {{"cpu_ns", 20'000'000}, {"run_delay_ns", rank == 1 ? 30'000'000 : 0}});
      trace.Event("forward", begin_ms, arrival_ms);
      trace.AllReduce(step, arrival_ms, begin_ms + 59);
      trace.Counter("cgroup throttled (%)", begin_ms, rank == 1 ? 80 : 1);
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w1"})) << verdict;
  EXPECT_EQ(verdict["class"], "not_running");
  EXPECT_THAT(verdict["why"].dump(),
              HasSubstr("its cgroup uses up its CPU quota in 80 % of its periods (others 1 %)"));
  EXPECT_THAT(verdict["advice"].dump(), HasSubstr("cpu.max"));
}

// The steps of the other ranks carry no CPU times: whether they sleep as long is not known.
TEST_F(StragglerTest, SleepIsNotComparedWithWhatIsNotKnown) {
  const auto sleeps = [&](const std::string& name, const Stats& of_others) {
    const std::string path = directory_.path() + "/" + name;
    std::filesystem::create_directory(path);
    MadeRun run(path);
    for (int rank = 0; rank < 4; ++rank) {
      TraceFile trace;
      for (int step = 0; step < 30; ++step) {
        const double begin_ms = step * 60;
        const double arrival_ms = begin_ms + (rank == 1 ? 50 : 20) + Jitter(rank, step);
        trace.Step(step, begin_ms, begin_ms + 60,
                   rank == 1 ? Stats{{"cpu_ns", 1'000'000}, {"run_delay_ns", 0}} : of_others);
        trace.Event("forward", begin_ms, arrival_ms);
        trace.AllReduce(step, arrival_ms, begin_ms + 59);
      }
      run.AddWorker(rank, "node0", trace);
    }
    run.WriteManifest();
    const json verdict = ReportOf(path)["verdict"];
    EXPECT_EQ(verdict["workers"], json({"w1"})) << verdict;
    return verdict.contains("asleep_ms");
  };
  EXPECT_TRUE(sleeps("known", {{"cpu_ns", 20'000'000}, {"run_delay_ns", 0}}));
  EXPECT_FALSE(sleeps("unknown", {}));
}

// An all_reduce is called and left to run; the program waits for it in a scope, or in none.
TEST_F(StragglerTest, AScopeThatWaitsForACollectiveHidesNoStraggler) {
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

TEST_F(StragglerTest, OneOfTwoNodesIsSlow) {
  AddRanks(8, 40, Jitter, [](int rank, int) { return rank < 4 ? 50.0 : 75.0; });
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "straggler") << verdict;
  EXPECT_EQ(verdict["node"], "node1");
  EXPECT_EQ(verdict["workers"], json({"w4", "w5", "w6", "w7"}));
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.30, 0.01);
}

// In a step without a collective nobody waits: a step takes what it takes the ranks on average.
TEST_F(StragglerTest, AStepOfAccumulatedGradientsIsTheMeanOfTheRanks) {
  AddAccumulatingRanks(8, 80, 8, [](int rank) { return rank == 5 ? 100.0 : 50.0; });
  WriteManifest();
  const json report = ReportOfRun();
  const json& verdict = report["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w5"})) << verdict;
  EXPECT_EQ(verdict["class"], "host");
  for (const json& worker : report["workers"]) {
    EXPECT_NEAR(verdict["step_ms"].get<double>(), worker["mean_ms"].get<double>(), 1e-6) << worker;
  }
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.5, 0.005) << verdict;
  EXPECT_FALSE(verdict.contains("gain_at_most")) << verdict;
  EXPECT_NEAR(verdict["mended_step_ms"].get<double>(), 50.1, 0.1) << verdict;
}

// Tensor parallelism: pairs that reduce at the same time, then all together.
TEST_F(StragglerTest, GroupsThatTransferAtTheSameTime) {
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

// Two ranks share a tensor, four the data. The partner of the slow rank is the last one of another
// group, in which most time is lost.
TEST_F(StragglerTest, TheLastArrivalsAreThoseInAGroupOfTheSlowRank) {
  std::vector<TraceFile> traces(8);
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = 5 + step * 62;
    for (int rank = 0; rank < 8; ++rank) {
      const double arrival_ms = begin_ms + (rank == 5 ? 50 : 20);
      const double pair_end_ms = begin_ms + (rank / 2 == 2 ? 51 : 21);
      const double more_ms = rank % 2 == 1 && rank != 5 ? 1 : 0;
      TraceFile& trace = traces[static_cast<size_t>(rank)];
      trace.Step(step, begin_ms, begin_ms + 62);
      trace.Event("forward", begin_ms, arrival_ms);
      trace.AllReduce(step, arrival_ms, pair_end_ms, "tensor" + std::to_string(rank / 2));
      trace.Event("scale", pair_end_ms, pair_end_ms + more_ms);
      trace.AllReduce(step, pair_end_ms + more_ms, begin_ms + 62,
                      "data" + std::to_string(rank % 2));
    }
  }
  for (int rank = 0; rank < 8; ++rank) AddWorker(rank, "node0", traces[static_cast<size_t>(rank)]);
  WriteManifest();
  const json report = ReportOfRun();
  const auto wait_ms = [&](const std::string& group) {
    for (const json& row : report["collectives"]) {
      if (row["process_group"] == group) return row["wait_ms"].get<double>();
    }
    ADD_FAILURE() << group << report["collectives"];
    return 0.0;
  };
  EXPECT_GT(wait_ms("data0"), wait_ms("data1"));
  EXPECT_EQ(report["verdict"]["workers"], json({"w5"})) << report["verdict"];
  EXPECT_THAT(report["verdict"]["why"][0].get<std::string>(),
              HasSubstr("last to arrive at 40 of 40 gloo:all_reduce"));
}

// The second stage of a pipeline begins when the first one has ended: 20 ms, then 30.
TEST_F(StragglerTest, OfStagesInARowTheGainIsALimit) {
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
  EXPECT_THAT(verdict["text"].get<std::string>(), HasSubstr("at most 1.24x slower")) << verdict;
  EXPECT_FALSE(verdict.contains("gain_low")) << verdict;
  EXPECT_FALSE(verdict.contains("gain_high")) << verdict;
  EXPECT_THAT(verdict["advice"].get<std::string>(), HasSubstr("41.0 ms (at most -20 %)"));
}

}  // namespace
}  // namespace jobscope::analysis
