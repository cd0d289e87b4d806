// SPDX-License-Identifier: Apache-2.0
#include "analysis/alignment/alignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "analysis/alignment/waits.h"

namespace jobscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

// Workers with steps of 10 ns, and a collective in each.
struct Workers {
  std::vector<v1::Digest> digests;
  std::vector<WorkerView> views;

  explicit Workers(size_t count) : digests(count), views(count) {
    for (size_t w = 0; w < count; ++w) {
      digests[w].set_name("w" + std::to_string(w));
      digests[w].set_aligned(true);
      digests[w].set_clock_uncertainty_ns(0);
      views[w].digest = &digests[w];
      views[w].texts = {"all_reduce", "group"};
    }
  }
  void Step(size_t w, int64_t number, bool with_collective = true) {
    WorkerView& view = views[w];
    const auto begin_ns = static_cast<int64_t>(view.steps.size()) * 10;
    view.steps.push_back({number, begin_ns, begin_ns + 10, 10});
    if (with_collective) Call(w);
  }
  // Calls a collective in the last step.
  void Call(size_t w) {
    WorkerView& view = views[w];
    CollectiveView collective;
    collective.begin_ns = view.steps.back().begin_ns + 4;
    collective.end_ns = view.steps.back().begin_ns + 9;
    collective.step = static_cast<uint32_t>(view.steps.size() - 1);
    view.collectives.push_back(collective);
  }
  // Numbers the last collective.
  void Sequence(size_t w, int64_t sequence, uint32_t group = 1) {
    views[w].collectives.back().group = group;
    views[w].collectives.back().sequence = sequence;
  }
  // Moves a worker's times, and stretches them.
  void Move(size_t w, int64_t by_ns, int64_t times) {
    for (StepView& step : views[w].steps) {
      step.begin_ns = by_ns + step.begin_ns * times;
      step.end_ns = by_ns + step.end_ns * times;
      step.account_ns *= times;
    }
    for (CollectiveView& collective : views[w].collectives) {
      collective.begin_ns = by_ns + collective.begin_ns * times;
      collective.end_ns = by_ns + collective.end_ns * times;
    }
  }
};

TEST(AlignmentTest, NumbersThatOccurTwiceAreNoStepsInCommon) {
  Workers workers(2);
  for (const int64_t number : {1, 2, 2, 3}) workers.Step(0, number, false);
  for (const int64_t number : {0, 1, 2, 3}) workers.Step(1, number, false);
  const Alignment alignment = Align(workers.views);
  EXPECT_THAT(alignment.numbers, ElementsAre(1, 3));
  EXPECT_THAT(alignment.steps[0], ElementsAre(0, 3));
  EXPECT_THAT(alignment.steps[1], ElementsAre(1, 3));
  EXPECT_FALSE(alignment.synchronous);
}

// Numbers that share one place in a hash table whose hash is the number itself: each would be
// compared with all others.
TEST(AlignmentTest, NumbersThatCollide) {
  constexpr int64_t kSteps = 300'000;
  std::unordered_set<int64_t> table;
  for (int64_t number = 0; number < kSteps; ++number) table.insert(number);
  const auto distance = static_cast<int64_t>(table.bucket_count());
  Workers workers(2);
  for (int64_t step = 0; step < kSteps; ++step) {
    for (size_t w = 0; w < 2; ++w) workers.Step(w, step * distance, /*with_collective=*/false);
  }
  EXPECT_EQ(Align(workers.views).common(), static_cast<size_t>(kSteps));
}

TEST(AlignmentTest, WithoutSequencesByNameAndOrdinal) {
  Workers workers(3);
  for (size_t w = 0; w < 3; ++w) {
    for (int64_t number = 0; number < 5; ++number) workers.Step(w, number);
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_THAT(alignment.matches, SizeIs(5));
  EXPECT_TRUE(alignment.matches[0].complete);
  EXPECT_TRUE(alignment.synchronous);
}

// As in traces of XLA, in which each collective has a name of its own. Work that grows with the
// square of their number would take minutes.
TEST(AlignmentTest, ManyNamesOfCollectives) {
  constexpr uint32_t kNames = 50'000;
  Workers workers(2);
  for (size_t w = 0; w < 2; ++w) {
    workers.views[w].texts.clear();
    for (uint32_t name = 0; name < kNames; ++name) {
      workers.views[w].texts.push_back(absl::StrCat("all-reduce.", name));
    }
    workers.Step(w, 1, /*with_collective=*/false);
    for (uint32_t name = 0; name < kNames; ++name) {
      workers.Call(w);
      workers.views[w].collectives.back().name = name;
    }
  }
  const Alignment alignment = Align(workers.views);
  ASSERT_THAT(alignment.matches, SizeIs(kNames));
  EXPECT_TRUE(alignment.matches[0].complete);
}

// Inferred steps are counted from where each worker's capture began.
TEST(AlignmentTest, WithoutSequencesTheTimesOfCollectivesOverruleNumbers) {
  Workers workers(3);
  for (int64_t step = 0; step < 10; ++step) {
    for (size_t w = 0; w < 3; ++w) workers.Step(w, w == 1 ? step + 1 : step);
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_EQ(alignment.by, Alignment::By::kCollectives);
  EXPECT_EQ(alignment.common(), 10u);
  EXPECT_EQ(alignment.steps[1], alignment.steps[0]);
  ASSERT_THAT(alignment.matches, SizeIs(10));
  for (const Match& match : alignment.matches) {
    ASSERT_THAT(match.members, SizeIs(3));
    EXPECT_EQ(match.members[1].collective, match.members[0].collective);
  }
  EXPECT_THAT(alignment.warnings, SizeIs(1));
}

TEST(AlignmentTest, ClocksThatWereNotComparedOverruleNothing) {
  Workers workers(2);
  workers.digests[1].set_aligned(false);
  for (int64_t step = 0; step < 10; ++step) {
    workers.Step(0, step);
    workers.Step(1, step + 1);
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_EQ(alignment.by, Alignment::By::kNumber);
  EXPECT_EQ(alignment.common(), 9u);
}

// By clocks that differ by a step each collective ends nearest to one of another step.
TEST(AlignmentTest, ClocksThatMayBeOffByPartOfAStepOverruleNothing) {
  for (const uint64_t uncertainty_ns : {2, 3, 10}) {
    Workers workers(2);
    for (int64_t step = 0; step < 10; ++step) {
      for (size_t w = 0; w < 2; ++w) {
        workers.digests[w].set_clock_uncertainty_ns(uncertainty_ns);
        workers.Step(w, step);
      }
    }
    workers.Move(1, 10, /*times=*/1);
    const Alignment alignment = Align(workers.views);
    const bool clocks_decide = uncertainty_ns == 2;
    EXPECT_EQ(alignment.common(), clocks_decide ? 9u : 10u) << uncertainty_ns;
    EXPECT_EQ(alignment.by, clocks_decide ? Alignment::By::kCollectives : Alignment::By::kNumber)
        << uncertainty_ns;
  }
}

TEST(AlignmentTest, CollectivesThatDifferAreNotMatched) {
  Workers workers(2);
  for (int64_t number = 0; number < 5; ++number) {
    workers.Step(0, number);
    workers.Step(1, number, number % 2 == 0);
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_THAT(alignment.matches, IsEmpty());
  EXPECT_THAT(alignment.warnings, SizeIs(1));
}

// One rank calls a barrier that the others do not; all others are matched.
TEST(AlignmentTest, WhatIsNotMatchedBesideOthersHidesNothingElse) {
  Workers workers(2);
  for (int64_t number = 0; number < 10; ++number) {
    for (size_t w = 0; w < 2; ++w) {
      workers.Step(w, number);
      workers.Sequence(w, number);
    }
    workers.Call(1);
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_THAT(alignment.matches, SizeIs(10));
  EXPECT_THAT(alignment.warnings, ElementsAre(StartsWith("some collectives carry no sequence")));
}

// Steps that take as long everywhere are compared as a whole.
TEST(WaitsTest, WholeStepsWhereCollectivesCannotBeMatched) {
  Workers workers(2);
  for (int64_t number = 0; number < 4; ++number) {
    workers.Step(0, number);
    workers.Step(1, number, number % 2 == 0);
  }
  workers.views[0].blocked_ns = {5, 5, 5, 5};
  workers.views[1].blocked_ns = {2, 0, 2, 0};
  const Alignment alignment = Align(workers.views);
  EXPECT_TRUE(alignment.whole_steps);
  EXPECT_TRUE(alignment.synchronous);
  std::vector<int64_t> unmatched;
  const std::vector<MatchTimes> matches = SplitBlocked(alignment, &workers.views, &unmatched);
  EXPECT_THAT(workers.views[0].class_ns[Index(StepClass::kWaiting)], ElementsAre(3, 5, 3, 5));
  EXPECT_THAT(workers.views[0].class_ns[Index(StepClass::kTransfer)], ElementsAre(2, 0, 2, 0));
  EXPECT_THAT(TransferPerStep(alignment, {&workers.views[0], &workers.views[1]}, matches),
              ElementsAre(2, 0, 2, 0));
}

// An evaluator among ranks.
TEST(AlignmentTest, AWorkerWithoutCollectivesIsApartFromTheRanks) {
  for (const bool sequences : {false, true}) {
    Workers workers(3);
    for (int64_t number = 0; number < 10; ++number) {
      for (size_t w = 0; w < 3; ++w) {
        workers.Step(w, number, w != 1);
        if (sequences && w != 1) workers.Sequence(w, number);
      }
    }
    const Alignment alignment = Align(workers.views);
    EXPECT_THAT(alignment.workers, ElementsAre(0, 2));
    EXPECT_THAT(alignment.apart, ElementsAre(1));
    ASSERT_THAT(alignment.matches, SizeIs(10));
    EXPECT_TRUE(alignment.matches[0].complete);
    EXPECT_THAT(alignment.warnings, SizeIs(1));
  }
}

// Each worker meets the next one only, so the last one is known by the steps of all others. A
// search through all matches for each of them would take minutes.
TEST(AlignmentTest, AChainOfManyWorkersThatNumberTheirStepsDifferently) {
  constexpr size_t kWorkers = 20'000;
  Workers workers(kWorkers);
  for (size_t w = 0; w < kWorkers; ++w) {
    workers.views[w].texts = {"send", absl::StrCat("pair ", w), absl::StrCat("pair ", w + 1)};
    for (int64_t step = 0; step < 8; ++step) {
      workers.Step(w, step + static_cast<int64_t>(w), /*with_collective=*/false);
      for (const uint32_t group : {1, 2}) {
        workers.Call(w);
        workers.Sequence(w, step, group);
      }
    }
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_EQ(alignment.by, Alignment::By::kCollectives);
  EXPECT_THAT(alignment.matches, SizeIs(8 * (kWorkers - 1)));
  EXPECT_EQ(alignment.common(), 8u);
  EXPECT_THAT(alignment.steps.back(), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

// Two jobs in one run count from the same numbers.
TEST(AlignmentTest, CollectivesThatCannotHaveMetAreDifferent) {
  Workers workers(5);
  for (int64_t number = 0; number < 10; ++number) {
    for (size_t w = 0; w < 5; ++w) {
      workers.Step(w, number);
      workers.Sequence(w, number);
    }
  }
  for (size_t w = 3; w < 5; ++w) workers.Move(w, 1000, /*times=*/3);
  const Alignment alignment = Align(workers.views);
  EXPECT_THAT(alignment.workers, ElementsAre(0, 1, 2));
  EXPECT_THAT(alignment.apart, ElementsAre(3, 4));
  ASSERT_THAT(alignment.matches, SizeIs(20));
  EXPECT_THAT(alignment.matches[0].members, SizeIs(3));
  EXPECT_THAT(alignment.matches[1].members, SizeIs(2));
}

// Stages of a pipeline, whose sends are not matched, are ranks of one job nevertheless.
TEST(AlignmentTest, WorkersInStepStayTogether) {
  Workers workers(4);
  for (int64_t number = 0; number < 10; ++number) {
    for (size_t w = 0; w < 4; ++w) {
      workers.Step(w, number);
      workers.Sequence(w, number);
      if (w >= 2) workers.views[w].texts[1] = "other group";
    }
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_THAT(alignment.workers, SizeIs(4));
  EXPECT_THAT(alignment.apart, IsEmpty());
}

// Two equal jobs in one run take the same time for a step: their ranks tell them apart.
TEST(AlignmentTest, WorkersInStepWithARankOfTheOthersAreOfAnotherJob) {
  Workers workers(4);
  for (int64_t step = 0; step < 10; ++step) {
    for (size_t w = 0; w < 4; ++w) {
      const int64_t offset = w < 2 ? 0 : 1000;
      workers.digests[w].set_rank(static_cast<int64_t>(w % 2));
      workers.Step(w, step + offset);
      workers.Sequence(w, step + offset);
    }
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_THAT(alignment.workers, ElementsAre(0, 1));
  EXPECT_THAT(alignment.apart, ElementsAre(2, 3));
  EXPECT_EQ(alignment.common(), 10u);
}

TEST(AlignmentTest, NoMoreMembersThanTheGroupHas) {
  Workers workers(3);
  for (int64_t number = 0; number < 10; ++number) {
    for (size_t w = 0; w < 3; ++w) {
      workers.Step(w, number);
      workers.Sequence(w, number);
      workers.views[w].collectives.back().group_size = 2;
    }
  }
  EXPECT_THAT(Align(workers.views).matches, IsEmpty());
}

// Numbers restart with each epoch.
TEST(AlignmentTest, NumbersThatRecurAreAlignedByCollectives) {
  Workers workers(3);
  for (int64_t step = 0; step < 40; ++step) {
    for (size_t w = 0; w < 3; ++w) {
      workers.Step(w, step % 10);
      workers.Sequence(w, step);
    }
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_EQ(alignment.by, Alignment::By::kCollectives);
  EXPECT_EQ(alignment.common(), 40u);
  EXPECT_EQ(alignment.steps[2], alignment.steps[0]);
}

// A mesh of two by two: no group has both the first and the last worker.
TEST(AlignmentTest, StepsAreAlignedThroughOtherWorkers) {
  Workers workers(4);
  for (int64_t step = 0; step < 10; ++step) {
    for (size_t w = 0; w < 4; ++w) {
      workers.views[w].texts = {"all_reduce", w < 2 ? "rows 0" : "rows 1",
                                w % 2 == 0 ? "columns 0" : "columns 1"};
      workers.Step(w, 100 * static_cast<int64_t>(w) + step);
      workers.Sequence(w, step);
      workers.views[w].collectives.push_back(workers.views[w].collectives.back());
      workers.views[w].collectives.back().group = 2;
    }
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_EQ(alignment.common(), 10u);
  EXPECT_EQ(alignment.steps[3], alignment.steps[0]);
}

TEST(AlignmentTest, AWorkerWithoutStepsTakesNoPart) {
  Workers workers(3);
  for (int64_t number = 0; number < 5; ++number) {
    workers.Step(0, number, false);
    workers.Step(2, number, false);
  }
  const Alignment alignment = Align(workers.views);
  EXPECT_THAT(alignment.workers, ElementsAre(0, 2));
  EXPECT_EQ(alignment.common(), 5u);
}

// Arrivals on clocks that may be off by more than a collective takes divide nothing: the least
// blocked time of its members does.
TEST(WaitsTest, ArrivalsOnUncertainClocksAreNotUsed) {
  for (const uint64_t uncertainty_ns : {1, 15}) {
    Workers workers(2);
    for (size_t w = 0; w < 2; ++w) {
      workers.digests[w].set_clock_uncertainty_ns(uncertainty_ns);
      workers.Step(w, 0);
      CollectiveView& collective = workers.views[w].collectives.back();
      collective.blocked = {{collective.begin_ns, collective.end_ns}};
      collective.blocked_ns = 5;
      workers.views[w].blocked_ns = {5};
    }
    workers.Move(1, 3, /*times=*/1);
    workers.views[1].collectives.back().blocked = {{7, 12}};
    const Alignment alignment = Align(workers.views);
    ASSERT_THAT(alignment.matches, SizeIs(1));
    std::vector<int64_t> unsure;
    SplitBlocked(alignment, &workers.views, &unsure);
    EXPECT_THAT(workers.views[0].class_ns[Index(StepClass::kWaiting)],
                ElementsAre(uncertainty_ns == 1 ? 3 : 0));
  }
}

TEST(WaitsTest, BesideAMemberThatIsNotKnownNobodyIsTheLastOne) {
  for (const uint32_t members : {2, 3}) {
    Workers workers(2);
    for (size_t w = 0; w < 2; ++w) {
      workers.Step(w, 0);
      workers.Sequence(w, 0);
      workers.views[w].collectives.back().group_size = members;
    }
    workers.Move(1, 3, /*times=*/1);
    const Alignment alignment = Align(workers.views);
    ASSERT_THAT(alignment.matches, SizeIs(1));
    std::vector<int64_t> unsure;
    const std::vector<MatchTimes> matches = SplitBlocked(alignment, &workers.views, &unsure);
    EXPECT_EQ(matches.at(0).last, members == 2 ? std::optional<size_t>(1) : std::nullopt);
  }
}

TEST(WaitsTest, OnlyBlockedTimeBeforeTheLastArrivalIsWaiting) {
  EXPECT_EQ(BlockedBefore({{0, 10}, {20, 40}, {50, 60}}, 30), 20);
  EXPECT_EQ(BlockedBefore({{40, 60}}, 30), 0);
}

}  // namespace
}  // namespace jobscope::analysis
