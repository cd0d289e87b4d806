// SPDX-License-Identifier: Apache-2.0
//
// Tests that a class in a few steps only is left out when the other steps are judged.
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

class RareTest : public RunFixture {
 protected:
  // What a rank does in a step, in ms.
  struct Work {
    double compile = 0;
    double input = 0;
    double compute = 42;
    double transfer = 8;
  };
  // Ranks in step, as of AddRanks(); `work(rank, step)`.
  void AddRanksThat(int ranks, const std::function<Work(int, int)>& work) {
    std::vector<TraceFile> traces(static_cast<size_t>(ranks));
    double begin_ms = 5;
    for (int step = 0; step < 40; ++step) {
      double last_ms = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Work of = work(rank, step);
        last_ms = std::max(last_ms, begin_ms + of.compile + of.input + of.compute);
      }
      const double end_ms = last_ms + work(0, step).transfer;
      for (int rank = 0; rank < ranks; ++rank) {
        const Work of = work(rank, step);
        TraceFile& trace = traces[static_cast<size_t>(rank)];
        const double ready_ms = begin_ms + of.compile + of.input;
        trace.Step(step, begin_ms, end_ms);
        if (of.compile > 0) {
          trace.Event("backend_compile_and_load", begin_ms, begin_ms + of.compile);
        }
        if (of.input > 0) trace.Input(begin_ms + of.compile, ready_ms);
        trace.Event("forward", ready_ms, ready_ms + of.compute);
        trace.AllReduce(step, ready_ms + of.compute, end_ms);
      }
      begin_ms = end_ms;
    }
    for (int rank = 0; rank < ranks; ++rank) {
      AddWorker(rank, "node0", traces[static_cast<size_t>(rank)]);
    }
    WriteManifest();
  }
  // A compilation of about 30 s, which does not take all ranks as long.
  static double AtTheStart(int rank, int step) {
    return step == 0 ? 29'500 + 2000 * Jitter(rank, step) : 0;
  }
};

TEST_F(RareTest, AStragglerIsFoundBesideACompilationAtTheStart) {
  AddRanksThat(8, [](int rank, int step) {
    return Work{AtTheStart(rank, step), 0, rank == 3 ? 62.0 : 42.0};
  });
  const json report = ReportOfRun();
  const json& verdict = report["verdict"];
  EXPECT_EQ(verdict["finding"], "straggler") << verdict;
  EXPECT_EQ(verdict["workers"], json({"w3"}));
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_NEAR(verdict["step_ms"].get<double>(), 70, 0.1);
  EXPECT_NEAR(verdict["gain"].get<double>(), 20.0 / 70, 0.01);
  EXPECT_FALSE(verdict.contains("gain_at_most")) << verdict;
  EXPECT_THAT(verdict["why"].back().get<std::string>(),
              HasSubstr("not counted: compilation, 30.4 s in 1 of 40 steps"));
  EXPECT_EQ(verdict.value("not_counted", json()),
            json({{{"class", "compilation"}, {"ms", 30400.0}, {"steps", 1}, {"of_steps", 40}}}));
  // The table tells all that was measured.
  EXPECT_GT(report["workers"][0]["mean_ms"], 800) << report["workers"][0];
}

TEST_F(RareTest, EqualRanksThatCompileAtTheStartDoNotWaitForOneAnother) {
  AddRanksThat(8, [](int rank, int step) { return Work{AtTheStart(rank, step)}; });
  const json report = ReportOfRun();
  EXPECT_EQ(report["verdict"]["finding"], "balanced") << report["verdict"];
  EXPECT_EQ(report["findings"], json::array());
}

TEST_F(RareTest, ARankThatCompilesForLongerThanTheOthersIsBlamed) {
  AddRanksThat(8, [](int rank, int step) {
    return Work{step == 0 ? (rank == 3 ? 30'000.0 : 10'000.0) : 0};
  });
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "straggler") << verdict;
  EXPECT_EQ(verdict["workers"], json({"w3"}));
  EXPECT_EQ(verdict["class"], "compilation");
  EXPECT_EQ(verdict["single_step"], 0);
}

// Of many ranks one compiles in each step, the others at the start only.
TEST_F(RareTest, ARankThatCompilesInEachStepIsBlamed) {
  AddRanksThat(
      160, [](int rank, int step) { return Work{step == 0 ? 30'000.0 : (rank == 3 ? 50.0 : 0)}; });
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "straggler") << verdict;
  EXPECT_EQ(verdict["workers"], json({"w3"}));
  EXPECT_EQ(verdict["class"], "compilation");
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.5, 0.03);
}

TEST_F(RareTest, AStragglerIsFoundBesideOneLongTransfer) {
  AddRanksThat(8, [](int rank, int step) {
    return Work{0, 0, rank == 3 ? 62.0 : 42.0, step == 7 ? 30'000.0 : 0.2};
  });
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w3"})) << verdict;
  EXPECT_NEAR(verdict["gain"].get<double>(), 20.0 / 62.2, 0.01);
  EXPECT_FALSE(verdict.contains("gain_at_most")) << verdict;
  EXPECT_THAT(verdict["why"].back().get<std::string>(),
              HasSubstr("not counted: transfer, 30.0 s in 1 of 40 steps"));
}

TEST_F(RareTest, ABoundOfTheOtherStepsDoesNotHideAStraggler) {
  AddRanksThat(8, [](int rank, int step) {
    return Work{step == 0 ? 3000.0 : 0, 20, rank == 3 ? 34.5 : 22};
  });
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w3"})) << verdict;
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.2, 0.01);
}

// One step costs 2000 ms, and the input 1200 ms of all steps.
TEST_F(RareTest, ABoundOfTheOtherStepsIsComparedWithASingleStepByTime) {
  AddRanksThat(8, [](int rank, int step) {
    return Work{step == 0 ? (rank == 3 ? 12'000.0 : 10'000.0) : 0, 30, 22};
  });
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w3"})) << verdict;
  EXPECT_EQ(verdict["single_step"], 0);
}

// Once all wait for 30 s: for the link, or for a rank that is not known.
TEST_F(RareTest, ALongTransferIsCountedWhereItsCauseIsNotKnown) {
  const auto work = [](int, int step) { return Work{0, 0, 42, step == 7 ? 30'000.0 : 0.2}; };
  AddRanksThat(4, work);
  EXPECT_EQ(ReportOfRun()["verdict"]["finding"], "balanced");

  AddMissing("w4", "unreachable", "connection refused");
  WriteManifest();
  json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict.value("why_undecidable", ""), HasSubstr("1 of 5 workers are missing"));

  for (int rank = 1; rank < 4; ++rank) {
    std::filesystem::remove(directory_.path() + "/w" + std::to_string(rank) + ".xplane.pb");
  }
  workers_.erase(workers_.begin() + 1, workers_.end());
  WriteManifest();
  verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
  EXPECT_THAT(verdict.value("why_undecidable", ""), HasSubstr("members are not recorded"));
}

TEST_F(RareTest, OfDifferentNumbersOfStepsNoneIsReported) {
  for (int rank = 0; rank < 2; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 40 * (rank + 1); ++step) {
      const double begin_ms = step == 0 ? 0 : 10'000 + 50 * step;
      trace.Step(step, begin_ms, 10'050 + 50 * step);
      if (step == 0) trace.Event("backend_compile_and_load", 0, 10'000);
      trace.Event("forward", 10'000 + 50 * step, 10'050 + 50 * step);
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["why"].back(), "not counted: compilation, 10.0 s; capture later, or longer");
}

TEST_F(RareTest, IndependentWorkersAreComparedWithoutTheCompilationAtTheStart) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    double begin_ms = 0;
    for (int step = 0; step < 40; ++step) {
      const double compile_ms = step == 0 ? 10'000 : 0;
      const double end_ms = begin_ms + compile_ms + (rank == 3 ? 100 : 50);
      trace.Step(step, begin_ms, end_ms);
      if (step == 0) trace.Event("backend_compile_and_load", begin_ms, begin_ms + compile_ms);
      trace.Event("forward", begin_ms + compile_ms, end_ms);
      begin_ms = end_ms;
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const json verdict = ReportOfRun()["verdict"];
  EXPECT_EQ(verdict["workers"], json({"w3"})) << verdict;
  EXPECT_EQ(verdict["class"], "host");
  EXPECT_NEAR(verdict["step_ms"].get<double>(), 100, 0.1);
  EXPECT_NEAR(verdict["gain"].get<double>(), 0.5, 0.01);
  EXPECT_THAT(verdict["why"].back().get<std::string>(), HasSubstr("not counted: compilation"));
}

}  // namespace
}  // namespace jobscope::analysis
