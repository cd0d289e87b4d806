// SPDX-License-Identifier: Apache-2.0
#include "analysis/verdict/diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

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

TEST(DiffTest, EqualRunsAreNoRegression) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const RunDiff diff = CompareSteps(Steps(100, 8, seed * 2), Steps(100, 8, seed * 2 + 1), 0.05);
    EXPECT_NE(diff.outcome, RunDiff::Outcome::kRegression) << seed;
    EXPECT_NE(diff.outcome, RunDiff::Outcome::kImprovement) << seed;
  }
}

class DiffRunsTest : public RunFixture {
 protected:
  Digests Run(double forward_ms, int ranks = 2) {
    const TemporaryDirectory directory;
    workers_ = json::array();
    AddRanks(
        ranks, 20, [](int, int) { return 2.0; }, [&](int, int) { return forward_ms; });
    WriteManifest();
    const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
    EXPECT_TRUE(digests.ok());
    return digests.ok() ? *digests : Digests();
  }
};

TEST_F(DiffRunsTest, TheClassAndTheNameThatGrew) {
  const Digests before = Run(30);
  const Digests after = Run(45);
  const RunDiff diff = DiffRuns(Reduce(before), Reduce(after), 0.05);
  EXPECT_EQ(diff.outcome, RunDiff::Outcome::kRegression);
  ASSERT_FALSE(diff.classes.empty());
  EXPECT_EQ(diff.classes[0].name, "host");
  EXPECT_NEAR(diff.classes[0].delta_ms(), 15, 0.01);
  EXPECT_EQ(diff.names[0].name, "forward");
  EXPECT_NEAR(diff.change, 15.0 / 40, 0.001);
}

TEST_F(DiffRunsTest, RunsOfOtherSizesAreUnlike) {
  const Digests before = Run(30, 2);
  const Digests after = Run(30, 3);
  EXPECT_EQ(WhyUnlike(Reduce(before), Reduce(after)), "2 and 3 workers with steps");
  EXPECT_EQ(WhyUnlike(Reduce(before), Reduce(before)), "");
}

}  // namespace
}  // namespace jobscope::analysis
