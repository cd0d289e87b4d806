// SPDX-License-Identifier: Apache-2.0
//
// Which names explain a class, where digests left names out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;

class CulpritsTest : public RunFixture {
 protected:
  // Four ranks. Rank 2 takes 60 ms for "forward" and 25 ms for "augment", the others 40 and 20 ms;
  // `small_ms`: each also runs "small".
  void AddRanksOfTwoNames(double small_ms = 0) {
    for (int rank = 0; rank < 4; ++rank) {
      TraceFile trace;
      for (int step = 0; step < 40; ++step) {
        const double begin_ms = 5 + step * 95;
        const double forward_ms = begin_ms + (rank == 2 ? 60 : 40);
        const double augment_ms = forward_ms + (rank == 2 ? 25 : 20);
        const double arrival_ms = augment_ms + small_ms;
        trace.Step(step, begin_ms, begin_ms + 95);
        trace.Event("forward", begin_ms, forward_ms);
        trace.Event("augment", forward_ms, augment_ms);
        if (small_ms > 0) trace.Event("small", augment_ms, arrival_ms);
        trace.AllReduce(step, arrival_ms, begin_ms + 95);
      }
      AddWorker(rank, "node0", trace);
    }
  }
  // The verdict if the digests of `workers` had no room for a scope.
  json VerdictWithout(const std::string& scope, const std::vector<size_t>& workers) {
    Digests digests = DigestsOfRun();
    for (const size_t w : workers) {
      auto* const names = digests.workers.at(w).mutable_operators();
      const int before = names->size();
      // Those without a time of their own would be the first ones without room.
      names->erase(std::remove_if(names->begin(), names->end(),
                                  [&](const v1::DigestName& name) {
                                    return name.name() == scope ||
                                           std::max({name.self_ns(), name.step_self_ns(),
                                                     name.input_ns()}) == 0;
                                  }),
                   names->end());
      EXPECT_LT(names->size(), before) << scope;
      digests.workers.at(w).set_operators_left_out(static_cast<uint64_t>(before - names->size()));
    }
    return json::parse(ReportJson(Reduce(digests)), nullptr, false)["verdict"];
  }
};

TEST_F(CulpritsTest, OfCompleteDigestsEachTimeIsKnown) {
  AddRanksOfTwoNames();
  const json verdict = VerdictWithout("", {});
  EXPECT_EQ(verdict["workers"], json({"w2"})) << verdict;
  EXPECT_EQ(verdict["names"], json({"forward", "augment"})) << verdict;
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("augment 25.0 ms per step (others 20.0 ms)"));
}

// The smallest name that the others' digests have takes longer than "augment".
TEST_F(CulpritsTest, ANameThatTheOthersLeftOutMayTakeAsLongThere) {
  AddRanksOfTwoNames();
  const json verdict = VerdictWithout("augment", {0, 1, 3});
  EXPECT_EQ(verdict["workers"], json({"w2"})) << verdict;
  EXPECT_EQ(verdict["names"], json({"forward"})) << verdict;
}

TEST_F(CulpritsTest, OfANameThatTheOthersLeftOutALimitIsKnown) {
  AddRanks(
      4, 40, [](int rank, int step) { return 20 + Jitter(rank, step); },
      [](int rank, int) { return rank == 2 ? 80.0 : 50.0; });
  const json verdict = VerdictWithout("forward", {0, 1, 3});
  EXPECT_EQ(verdict["workers"], json({"w2"})) << verdict;
  EXPECT_EQ(verdict["names"], json({"forward"})) << verdict;
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("forward 80.0 ms per step (others at most 20."));
}

TEST_F(CulpritsTest, OneDigestWithoutANameLeavesTheMedianCertain) {
  AddRanksOfTwoNames();
  const json verdict = VerdictWithout("forward", {0});
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("forward 60.0 ms per step (others 40.0 ms)"));
}

TEST_F(CulpritsTest, ASmallDoubtIsNone) {
  AddRanksOfTwoNames(/*small_ms=*/0.5);
  const json verdict = VerdictWithout("augment", {0, 1, 3});
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("augment 25.0 ms per step (others 0.00 ms)"));
}

TEST_F(CulpritsTest, WhatWorkersOfTheFindingLeftOutMakesItsTimeALowerLimit) {
  AddRanks(
      4, 40, [](int, int) { return 30.0; }, [](int, int) { return 10.0; });
  EXPECT_THAT(VerdictWithout("", {})["why"].dump(), HasSubstr("next_batch 30.0 ms per step"));
  const json verdict = VerdictWithout("next_batch", {2, 3});
  EXPECT_EQ(verdict["class"], "input") << verdict;
  EXPECT_THAT(verdict["why"].dump(), HasSubstr("next_batch at least 15.0 ms per step"));
}

}  // namespace
}  // namespace jobscope::analysis
