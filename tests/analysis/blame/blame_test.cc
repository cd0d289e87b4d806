// SPDX-License-Identifier: Apache-2.0
#include "analysis/blame/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/analysis/blame/made_times.h"

namespace jobscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(BlameTest, WorthByHand) {
  OwnTimes times;
  times.transfer_ns = {10, 10};
  times.own_ns = {{100, 100}, {100, 120}, {150, 130}};
  times.nodes = {"a", "b", "c"};
  const Straggler worth = WorthOf(Measured(times), {2});
  EXPECT_EQ(worth.step_ns, (160 + 140) / 2.0);
  EXPECT_EQ(worth.mended_step_ns, (110 + 130) / 2.0);
  EXPECT_NEAR(worth.gain, 1 - 240.0 / 300, 1e-12);
  EXPECT_LE(worth.gain_low, worth.gain);
  EXPECT_GE(worth.gain_high, worth.gain);
}

// The steps take longer than the largest own time and the transfer: part of the work is in a row.
TEST(BlameTest, WorthIsAPartOfTheMeasuredStep) {
  OwnTimes times;
  times.transfer_ns = {10, 10};
  times.own_ns = {{100, 100}, {100, 120}, {150, 130}};
  times.nodes = {"a", "b", "c"};
  times.step_ns = {155, 160};
  const Straggler close = WorthOf(times, {2});
  EXPECT_FALSE(close.at_most);
  EXPECT_NEAR(close.gain, 60.0 / 315, 1e-12);
  times.step_ns = {200, 190};
  const Straggler worth = WorthOf(times, {2});
  EXPECT_TRUE(worth.at_most);
  EXPECT_EQ(worth.step_ns, 195);
  EXPECT_EQ(worth.mended_step_ns, 165);
  EXPECT_NEAR(worth.gain, 30.0 / 195, 1e-12);
}

TEST(BlameTest, OneSlowRankIsFound) {
  OwnTimes times = Equal(8, 50);
  Slow(&times, 5, 40);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(5));
  EXPECT_EQ(found[0].node, "");
  EXPECT_NEAR(found[0].gain, 38.0 / 160, 0.03);
  EXPECT_GT(found[0].gain_low, 0.15);
}

TEST(BlameTest, AllWorkersWithOneModelOfGpuAreOneFinding) {
  OwnTimes times = Equal(12, 50);
  for (size_t w = 0; w < 12; ++w) times.gpu_models.push_back(w % 3 == 1 ? "B" : "A");
  for (const size_t w : {1, 4, 7, 10}) Slow(&times, w, 40);
  std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(1, 4, 7, 10));
  EXPECT_EQ(found[0].gpu_model, "B");
  EXPECT_EQ(found[0].node, "");
  // A fifth one that is fast: it is not the model.
  times.gpu_models[0] = "B";
  found = FindStragglers(Measured(times));
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found[0].gpu_model, "");
  // All of them on one node: it is the node.
  times = Equal(12, 50);
  for (size_t w = 0; w < 12; ++w) times.gpu_models.push_back(w / 4 == 1 ? "B" : "A");
  for (const size_t w : {4, 5, 6, 7}) Slow(&times, w, 40);
  found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].gpu_model, "");
  EXPECT_EQ(found[0].node, "node1");
}

// Worker 0 may be of the same node, or have the same GPU, and it is fast.
TEST(BlameTest, BesideAWorkerOfAnUnknownNodeOrModelNoneIsBlamed) {
  OwnTimes times = Equal(12, 50);
  for (const size_t worker : {4, 5, 6, 7}) Slow(&times, worker, 40);
  times.nodes[0].clear();
  std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found[0].workers, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(found[0].node, "");
  times = Equal(12, 50);
  for (size_t w = 0; w < 12; ++w) times.gpu_models.push_back(w % 3 == 1 ? "B" : "A");
  times.gpu_models[0].clear();
  for (const size_t w : {1, 4, 7, 10}) Slow(&times, w, 40);
  found = FindStragglers(Measured(times));
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found[0].workers, ElementsAre(1, 4, 7, 10));
  EXPECT_EQ(found[0].gpu_model, "");
}

TEST(BlameTest, EqualRanksBlameNobody) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    for (const double noise_ms : {0.1, 2.0, 15.0}) {
      for (const size_t workers : {size_t{2}, size_t{3}, size_t{4}, size_t{6}, size_t{8}}) {
        EXPECT_THAT(FindStragglers(Measured(Equal(workers, 40, noise_ms, seed))), IsEmpty())
            << workers << " workers, noise " << noise_ms << " ms, seed " << seed;
      }
    }
  }
}

TEST(BlameTest, OneOfTwo) {
  OwnTimes times = Equal(2, 50);
  Slow(&times, 1, 30);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(1));
}

TEST(BlameTest, AWholeNodeIsOneFinding) {
  OwnTimes times = Equal(12, 50);
  for (const size_t worker : {4, 5, 6, 7}) Slow(&times, worker, 30);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(found[0].node, "node1");
  EXPECT_GT(found[0].gain, 0.15);
}

// The median lies between the two halves, and so does the spread.
TEST(BlameTest, OneOfTwoNodes) {
  OwnTimes times = Equal(8, 40);
  for (const size_t worker : {4, 5, 6, 7}) Slow(&times, worker, 50);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(4, 5, 6, 7));
  EXPECT_EQ(found[0].node, "node1");
}

// One worker of the other node is missing.
TEST(BlameTest, ANodeOfMoreThanHalfOfTheWorkers) {
  OwnTimes times = Equal(7, 40);
  for (const size_t worker : {0, 1, 2, 3}) Slow(&times, worker, 50);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(found[0].node, "node0");
}

TEST(BlameTest, HalfOfTheRanksOfAllNodes) {
  OwnTimes times = Equal(8, 40);
  for (const size_t worker : {0, 3, 4, 6}) Slow(&times, worker, 50);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(0, 3, 4, 6));
  EXPECT_EQ(found[0].node, "");
}

TEST(BlameTest, TwoRanksThatHideBehindEachOtherAreOneFinding) {
  OwnTimes times = Equal(8, 50);
  Slow(&times, 1, 40);
  Slow(&times, 6, 40);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(1, 6));
}

TEST(BlameTest, TheSlowestOfSeveralDoesNotHideTheOthers) {
  OwnTimes times = Equal(8, 50);
  Slow(&times, 1, 45);
  Slow(&times, 6, 40);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_THAT(found[0].workers, ElementsAre(1, 6));
  EXPECT_THAT(found[1].workers, ElementsAre(1));
  EXPECT_GT(found[0].gain, 3 * found[1].gain);
}

TEST(BlameTest, TheOneThatIsFarSlowerIsTheAnswerAlone) {
  OwnTimes times = Equal(8, 50);
  Slow(&times, 1, 80);
  Slow(&times, 6, 20);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(1));
}

TEST(BlameTest, ASlowStepNowAndThenIsFound) {
  OwnTimes times = Equal(8, 60);
  Slow(&times, 3, 120, /*every=*/5);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, ElementsAre(3));
  EXPECT_FALSE(found[0].single);
}

TEST(BlameTest, ASingleLongStepIsAFindingOfItsOwn) {
  OwnTimes times = Equal(8, 40);
  times.own_ns[2][17] += 900e6;
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_TRUE(found[0].single);
  EXPECT_THAT(found[0].workers, ElementsAre(2));
  EXPECT_EQ(found[0].step, 17u);
}

TEST(BlameTest, ASingleStepThatCostsLittleIsNone) {
  OwnTimes times = Equal(8, 40);
  times.own_ns[2][17] += 200e6;
  EXPECT_THAT(FindStragglers(Measured(times)), IsEmpty());
}

// To compute for each of them what fixing it alone would gain takes minutes.
TEST(BlameTest, AThirdOfVeryManyWorkersAreSlow) {
  OwnTimes times = Equal(30'000, 64);
  for (size_t w = 0; w < 30'000; w += 3) Slow(&times, w, 40);
  const std::vector<Straggler> found = FindStragglers(Measured(times));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].workers, SizeIs(10'000));
}

}  // namespace
}  // namespace jobscope::analysis
