// SPDX-License-Identifier: Apache-2.0
//
// What lost events and uncertain clocks leave undecided.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;

class DoubtTest : public RunFixture {
 protected:
  // The verdict if the step thread of `worker` lost so many of 1,000 events.
  json VerdictWithLosses(size_t worker, uint64_t lost) {
    WriteManifest();
    absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
    EXPECT_TRUE(digests.ok()) << digests.status();
    if (!digests.ok()) return {};
    digests->workers[worker].set_step_thread_attempted(1000);
    digests->workers[worker].set_step_thread_lost(lost);
    return json::parse(ReportJson(Reduce(*digests)), nullptr, false)["verdict"];
  }
  static void ExpectLossesDecide(const json& verdict) {
    EXPECT_EQ(verdict["finding"], "undecidable") << verdict;
    EXPECT_THAT(verdict["why_undecidable"].dump(),
                HasSubstr("0.6 % of its step thread's events are lost"));
    EXPECT_THAT(verdict["advice"].dump(), HasSubstr("capture again"));
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
}

}  // namespace
}  // namespace jobscope::analysis
