// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <vector>

#include "analysis/output/diff_output.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

std::vector<double> Steps(double mean_ms, double noise_ms, uint32_t seed, size_t count = 60) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(mean_ms, noise_ms);
  std::vector<double> steps;
  for (size_t i = 0; i < count; ++i) steps.push_back(noise(random));
  return steps;
}

TEST(DiffTest, OutcomesByTheGate) {
  const std::vector<double> before = Steps(100, 3, 1);
  EXPECT_EQ(CompareSteps(before, Steps(120, 3, 2), 0.05).outcome, RunDiff::Outcome::kRegression);
  EXPECT_EQ(CompareSteps(before, Steps(80, 3, 2), 0.05).outcome, RunDiff::Outcome::kImprovement);
  EXPECT_EQ(CompareSteps(before, Steps(101, 3, 2), 0.05).outcome, RunDiff::Outcome::kNeutral);
  EXPECT_EQ(CompareSteps(before, Steps(120, 3, 2), 0.5).outcome, RunDiff::Outcome::kNeutral);
  EXPECT_EQ(CompareSteps(Steps(100, 80, 1), Steps(104, 80, 2), 0.05).outcome,
            RunDiff::Outcome::kInconclusive);
  const RunDiff few = CompareSteps(Steps(100, 1, 1, 7), before, 0.05);
  EXPECT_EQ(few.outcome, RunDiff::Outcome::kInconclusive);
  EXPECT_FALSE(few.why_inconclusive.empty());
}

TEST(DiffTest, WithTooFewStepsTheChangeHasNoInterval) {
  const RunDiff few =
      CompareSteps(std::vector<double>(7, 100.0), std::vector<double>(60, 150.0), 0.05);
  EXPECT_NEAR(few.change.value_or(0), 0.5, 1e-9);
  EXPECT_EQ(few.change_low, std::nullopt);
  EXPECT_EQ(few.change_high, std::nullopt);
  EXPECT_EQ(DiffText(few, 5),
            "OUTCOME  inconclusive: 150 ms per step, before 100 ms: +50.0 % (gate 5 %)\n"
            "WHY      fewer than 8 steps in one of the runs\n");
  const RunDiff none = CompareSteps({}, std::vector<double>(60, 150.0), 0.05);
  EXPECT_EQ(none.before_ms, std::nullopt);
  EXPECT_EQ(none.change, std::nullopt);
  EXPECT_EQ(DiffText(none, 5),
            "OUTCOME  inconclusive: 150 ms per step, before not known\n"
            "WHY      fewer than 8 steps in one of the runs\n");
  const nlohmann::json written = nlohmann::json::parse(DiffJson(none));
  for (const char* field : {"change", "change_low", "change_high"}) {
    EXPECT_FALSE(written.contains(field)) << field;
  }
  EXPECT_EQ(written["step_ms"], nlohmann::json({{"after", 150.0}}));
}

TEST(DiffTest, EqualRunsAreNoRegression) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const RunDiff diff = CompareSteps(Steps(100, 8, seed * 2), Steps(100, 8, seed * 2 + 1), 0.05);
    EXPECT_NE(diff.outcome, RunDiff::Outcome::kRegression) << seed;
    EXPECT_NE(diff.outcome, RunDiff::Outcome::kImprovement) << seed;
  }
}

TEST(DiffTest, WhatBecameFasterExplainsNoSlowerRun) {
  RunDiff diff = CompareSteps(Steps(66, 1, 1), Steps(75, 1, 2), 0.05);
  diff.classes = {{"input", 30, 5}, {"host", 30, 49}, {"gc", 5, 20}};
  diff.names = {{"old", 20, 0}, {"new", 0, 18}, {"unknown", std::nullopt, 70}};
  EXPECT_NE(DiffText(diff, 5).find("\nCLASS    host: 49"), std::string::npos) << DiffText(diff, 5);
  EXPECT_NE(DiffText(diff, 5).find("\nNAME     new: 18"), std::string::npos) << DiffText(diff, 5);
  diff.change = -*diff.change;
  EXPECT_NE(DiffText(diff, 5).find("\nCLASS    input: 5"), std::string::npos) << DiffText(diff, 5);
}

class DiffRunsTest : public RunFixture {
 protected:
  Digests Run(double forward_ms, int ranks = 2) {
    workers_ = json::array();
    AddRanks(
        ranks, 20, [](int, int) { return 2.0; }, [&](int, int) { return forward_ms; });
    return DigestsOfRun();
  }
};

TEST_F(DiffRunsTest, TheClassAndTheNameThatGrew) {
  const Digests before = Run(30);
  const Digests after = Run(45);
  const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
  EXPECT_EQ(diff.outcome, RunDiff::Outcome::kRegression);
  ASSERT_FALSE(diff.classes.empty());
  EXPECT_EQ(diff.classes[0].name, "host");
  EXPECT_NEAR(diff.classes[0].delta_ms().value_or(0), 15, 0.01);
  EXPECT_EQ(diff.names[0].name, "forward");
  EXPECT_NEAR(diff.change.value_or(0), 15.0 / 40, 0.001);
}

// Input takes 4 ms more per step, because one more wait of 50 ms lies in the second run; the
// computation takes 3 ms more in each step.
TEST_F(DiffRunsTest, WhatSurelyChangedPrecedesWhatMayHaveChangedByChance) {
  const auto run = [this](const std::vector<double>& input_ms, double host_ms) {
    TraceFile trace;
    double begin_ms = 0;
    for (size_t step = 0; step < input_ms.size(); ++step) {
      const double ready_ms = begin_ms + input_ms[step];
      const double end_ms = ready_ms + host_ms;
      trace.Step(static_cast<int64_t>(step), begin_ms, end_ms);
      trace.Input(begin_ms, ready_ms);
      trace.Event("forward", ready_ms, end_ms);
      begin_ms = end_ms;
    }
    workers_ = json::array();
    AddWorker(0, "node0", trace);
    return DigestsOfRun();
  };
  const Digests before = run({2, 2, 2, 2, 2, 50, 2, 2, 2, 2, 2, 2}, 20);
  const Digests after = run({2, 50, 2, 2, 2, 2, 2, 2, 50, 2, 2, 2}, 23);
  const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
  ASSERT_GE(diff.classes.size(), 2u);
  const Difference& host = diff.classes[0];
  EXPECT_EQ(host.name, "host");
  EXPECT_NEAR(host.delta_ms().value_or(0), 3, 1e-6);
  EXPECT_NEAR(host.low_ms.value_or(0), 3, 1e-6);
  EXPECT_NEAR(host.high_ms.value_or(0), 3, 1e-6);
  const Difference& input = diff.classes[1];
  EXPECT_EQ(input.name, "input");
  EXPECT_NEAR(input.delta_ms().value_or(0), 4, 1e-6);
  EXPECT_LT(input.low_ms.value_or(0), 0);
  EXPECT_GT(input.high_ms.value_or(0), 4);

  const std::string text = DiffText(diff, 5);
  EXPECT_THAT(text, testing::HasSubstr("\nCLASS    host: 23.0 ms per step, before 20.0 ms\n"));
  EXPECT_THAT(text, testing::ContainsRegex("CHANGE ms +95 % INTERVAL ms\n"));
  EXPECT_THAT(text, testing::ContainsRegex("host +20.000 +23.000 +.3.000 +.3.000 to .3.000\n"));
  EXPECT_THAT(text, testing::ContainsRegex("input +6.000 +10.000 +.4.000 +-[0-9.]+ to .[0-9.]+"));
  const json written = json::parse(DiffJson(diff));
  EXPECT_EQ(written["classes"][0]["low_ms"], 3.0);
  EXPECT_EQ(written["classes"][0]["high_ms"], 3.0);
  for (const json& entry : written["names"]) {
    EXPECT_FALSE(entry.contains("low_ms")) << "digests have sums of names only: " << entry;
  }
}

// A collection of 1 us in each step does not explain steps that are 4 ms longer.
TEST_F(DiffRunsTest, WhatSurelyChangedByLittleExplainsNothing) {
  const auto run = [this](const std::vector<double>& input_ms, double gc_ms) {
    TraceFile trace;
    double begin_ms = 0;
    for (size_t step = 0; step < input_ms.size(); ++step) {
      const double ready_ms = begin_ms + input_ms[step];
      trace.Step(static_cast<int64_t>(step), begin_ms, ready_ms + 20 + gc_ms);
      trace.Input(begin_ms, ready_ms);
      trace.Event("forward", ready_ms, ready_ms + 20);
      trace.Event("gc", ready_ms + 20, ready_ms + 20 + gc_ms);
      begin_ms = ready_ms + 20 + gc_ms;
    }
    workers_ = json::array();
    AddWorker(0, "node0", trace);
    return DigestsOfRun();
  };
  const Digests before = run({2, 2, 2, 2, 2, 50, 2, 2, 2, 2, 2, 2}, 0.001);
  const Digests after = run({2, 50, 2, 2, 2, 2, 2, 2, 50, 2, 2, 2}, 0.002);
  const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
  ASSERT_FALSE(diff.classes.empty());
  EXPECT_EQ(diff.classes[0].name, "input");
  EXPECT_THAT(DiffText(diff, 5), testing::HasSubstr("\nCLASS    input: 10.0 ms"));
}

// An evaluator, whose steps are longer, takes no part in those of the ranks.
TEST_F(DiffRunsTest, ClassesAddUpToTheStepTime) {
  const auto run = [this](double forward_ms) {
    workers_ = json::array();
    AddRanks(
        2, 20, [](int, int) { return 2.0; }, [&](int, int) { return forward_ms; });
    TraceFile evaluator;
    for (int step = 0; step < 20; ++step) {
      evaluator.Step(step, step * 300, step * 300 + 300);
      evaluator.Event("evaluate", step * 300, step * 300 + 300);
    }
    AddWorker(2, "node0", evaluator);
    return DigestsOfRun();
  };
  const Digests before = run(30);
  const Digests after = run(45);
  const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
  double before_ms = 0;
  double after_ms = 0;
  for (const Difference& difference : diff.classes) {
    before_ms += difference.before_ms.value_or(0);
    after_ms += difference.after_ms.value_or(0);
  }
  EXPECT_NEAR(before_ms, 40, 1e-6);
  EXPECT_NEAR(before_ms, diff.before_ms.value_or(0), 1e-6);
  EXPECT_NEAR(after_ms, 55, 1e-6);
  EXPECT_NEAR(after_ms, diff.after_ms.value_or(0), 1e-6);
}

// Six steps, whatever the number of ranks that wait for each other in them.
TEST_F(DiffRunsTest, RanksInStepMakeNoMoreSamples) {
  const auto run = [this](double forward_ms) {
    workers_ = json::array();
    AddRanks(
        16, 6, [](int, int) { return 2.0; },
        [&](int, int step) { return forward_ms + step % 2 * 20; });
    return DigestsOfRun();
  };
  const Digests before = run(30);
  const Digests after = run(45);
  const Report report_before = Reduce(before);
  EXPECT_EQ(StepTimesOf(report_before), std::vector<double>({40, 60, 40, 60, 40, 60}));
  const RunDiff diff = DiffRuns(report_before, Reduce(after), 0.05);
  EXPECT_EQ(diff.outcome, RunDiff::Outcome::kInconclusive);
  EXPECT_NEAR(diff.change.value_or(0), 0.3, 1e-6);
  EXPECT_EQ(diff.change_low, std::nullopt);
  EXPECT_EQ(diff.why_inconclusive, "fewer than 8 steps that all workers have, in one of the runs");
  ASSERT_FALSE(diff.classes.empty());
  for (const Difference& difference : diff.classes) {
    EXPECT_EQ(difference.low_ms, std::nullopt) << difference.name;
    EXPECT_EQ(difference.high_ms, std::nullopt) << difference.name;
  }
}

// A rank that becomes slower delays the others by as much, though not in the same step.
TEST_F(DiffRunsTest, AccumulatedGradientsChangeByWhatTheRunBecomesSlower) {
  const auto run = [this](double slow_ms) {
    workers_ = json::array();
    AddAccumulatingRanks(8, 80, 8, [&](int rank) { return rank == 5 ? slow_ms : 50.0; });
    return DigestsOfRun();
  };
  const Digests before = run(50);
  const Digests after = run(52);
  const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
  EXPECT_NEAR(diff.before_ms.value_or(0), 50.125, 1e-6);
  EXPECT_NEAR(diff.after_ms.value_or(0), 52.125, 1e-6);
}

// Workers without collectives, which the same cause delays in the same steps.
TEST_F(DiffRunsTest, WorkersBesideEachOtherMakeNoMoreSamples) {
  // `counts`: steps per worker; a worker with twice as many has two in the time of one.
  const auto run = [this](const std::vector<int>& counts, double step_ms) {
    workers_ = json::array();
    for (size_t w = 0; w < counts.size(); ++w) {
      TraceFile trace;
      double begin_ms = 0;
      const int each = counts[w] / 12;
      for (int step = 0; step < counts[w]; ++step) {
        const double end_ms = begin_ms + (step_ms + step / each % 3 * 10) / each;
        trace.Step(step, begin_ms, end_ms);
        begin_ms = end_ms;
      }
      AddWorker(static_cast<int>(w), "node0", trace);
    }
    return DigestsOfRun();
  };
  const auto diff = [&](const std::vector<int>& counts) {
    const Digests before = run(counts, 100);
    const Digests after = run(counts, 104);
    return DiffRuns(Reduce(before), Reduce(after), 0.05);
  };
  const RunDiff alone = diff({12});
  ASSERT_TRUE(alone.change_low.has_value());
  EXPECT_LT(*alone.change_low, 0) << "4 ms are less than the steps vary by";
  // 12 steps of 100, 110 and 120 ms, beside 24 of half as much.
  const Digests unequal = run({12, 24}, 100);
  const std::vector<double> times = StepTimesOf(Reduce(unequal));
  ASSERT_EQ(times.size(), 12u);
  for (size_t s = 0; s < times.size(); ++s) {
    EXPECT_NEAR(times[s], 0.75 * (100 + 10.0 * static_cast<double>(s % 3)), 1e-6);
  }
  const RunDiff sixteen = diff(std::vector<int>(16, 12));
  EXPECT_NEAR(sixteen.change_low.value_or(0), *alone.change_low, 1e-6);
  EXPECT_NEAR(sixteen.change_high.value_or(0), *alone.change_high, 1e-6);
}

// The capture of the second run goes on after its last whole step.
TEST_F(DiffRunsTest, KernelsOutsideOfStepsAreNoChange) {
  const auto run = [this](int more) {
    TraceFile trace;
    for (int step = 0; step < 20 + more; ++step) {
      const double begin_ms = 10.0 * step;
      if (step < 20) trace.Step(step, begin_ms, begin_ms + 10);
      trace.Kernel("sgemm", begin_ms + 1, begin_ms + 9);
    }
    workers_ = json::array();
    AddWorker(0, "node0", trace);
    return DigestsOfRun();
  };
  const Digests before = run(0);
  const Digests after = run(10);
  const Report report_after = Reduce(after);
  const RunDiff diff = DiffRuns(Reduce(before), report_after, 0.05);
  ASSERT_EQ(diff.names.size(), 1u);
  EXPECT_NEAR(diff.names[0].before_ms.value_or(0), 8, 1e-6);
  EXPECT_NEAR(diff.names[0].after_ms.value_or(0), 8, 1e-6);
  ASSERT_EQ(report_after.verdict.names.size(), 1u);
  EXPECT_NEAR(report_after.verdict.names[0].ms, 8, 1e-6);
  EXPECT_NEAR(report_after.kernels[0].total_ms, 240, 1e-6) << "the table has all";
}

// Without a GPU collector a run knows nothing of kernels:
// not even that there were none. A scope that it does not have has not run.
TEST_F(DiffRunsTest, WaitingIsNotWhatGrewWhereRanksRunInStep) {
  const auto run = [this](double slow_ms) {
    workers_ = json::array();
    AddRanks(
        8, 20, [](int, int) { return 2.0; },
        [&](int rank, int) { return rank == 3 ? slow_ms : 30.0; });
    return DigestsOfRun();
  };
  const Digests before = run(30);
  const Digests after = run(70);
  const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
  EXPECT_EQ(diff.outcome, RunDiff::Outcome::kRegression);
  ASSERT_FALSE(diff.classes.empty());
  EXPECT_EQ(diff.classes[0].name, "host");
  EXPECT_NEAR(diff.classes[0].delta_ms().value_or(0), 5, 0.01);
  EXPECT_THAT(DiffText(diff, 5), testing::HasSubstr("\nCLASS    host: "));
  EXPECT_THAT(DiffText(diff, 5), testing::ContainsRegex("waiting +0.000 +35.000 +.35.000"));
}

TEST_F(DiffRunsTest, WhatIsMissingInOneOfThemIsSaid) {
  const Digests before = Run(30, 2);
  Digests after = Run(30, 2);
  after.missing.push_back({"w2", "connection refused"});
  after.workers[1].add_warnings("a part of its trace is left out");
  const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
  EXPECT_THAT(diff.warnings, testing::ElementsAre("after: w2 is missing: connection refused",
                                                  "after: w1: a part of its trace is left out"));
  EXPECT_THAT(DiffText(diff, 5),
              testing::EndsWith("\nWARNING  after: w2 is missing: connection refused\n"
                                "WARNING  after: w1: a part of its trace is left out\n"));
  EXPECT_EQ(json::parse(DiffJson(diff))["warnings"].size(), 2u);
}

TEST_F(DiffRunsTest, RunsOfOtherSizesAreUnlike) {
  const Digests before = Run(30, 2);
  const Digests after = Run(30, 3);
  EXPECT_EQ(WhyUnlike(Reduce(before), Reduce(after)), "2 and 3 workers with steps");
  EXPECT_EQ(WhyUnlike(Reduce(before), Reduce(before)), "");
}

TEST_F(DiffRunsTest, RunsOfOtherProgramsAreUnlike) {
  Digests before = Run(30);
  Digests after = before;
  for (v1::Digest& digest : before.workers) digest.set_executable("/usr/bin/python3");
  EXPECT_EQ(WhyUnlike(Reduce(before), Reduce(after)), "") << "the other program is not known";
  for (v1::Digest& digest : after.workers) digest.set_executable("/opt/conda/bin/python3");
  EXPECT_EQ(WhyUnlike(Reduce(before), Reduce(after)), "") << "the same program elsewhere";
  for (v1::Digest& digest : after.workers) digest.set_executable("/opt/train");
  EXPECT_EQ(WhyUnlike(Reduce(before), Reduce(after)), "programs python3 and train");
  after = before;
  after.workers[1].set_step_name("evaluate");
  EXPECT_EQ(WhyUnlike(Reduce(before), Reduce(after)), "their steps have different names");
}

}  // namespace
}  // namespace jobscope::analysis
