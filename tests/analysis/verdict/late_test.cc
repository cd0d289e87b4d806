// SPDX-License-Identifier: Apache-2.0
//
// Who is late in a few steps only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

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

}  // namespace
}  // namespace jobscope::analysis
