// SPDX-License-Identifier: Apache-2.0
#include "analysis/report/name_times.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

class NameTimesTest : public RunFixture {
 protected:
  // Two workers of 20 steps. In each step both run `names` scopes of 1.0 ms down to 0.001 ms, and
  // the second one runs also "large" for 40 ms and "small" for 0.5 ms.
  Digests Run(int names) {
    for (int rank = 0; rank < 2; ++rank) {
      TraceFile trace;
      for (int step = 0; step < 20; ++step) {
        const double begin_ms = step * 400;
        trace.Step(step, begin_ms, begin_ms + 400);
        double at_ms = begin_ms;
        for (int i = 0; i < names; ++i) {
          const double end_ms = at_ms + 1.0 - 0.999 * i / (names - 1);
          trace.Event("op" + std::to_string(i), at_ms, end_ms);
          at_ms = end_ms;
        }
        if (rank == 0) continue;
        trace.Event("large", begin_ms + 340, begin_ms + 380);
        trace.Event("small", begin_ms + 380, begin_ms + 380.5);
      }
      AddWorker(rank, "node0", trace);
    }
    return DigestsOfRun();
  }
};

TEST_F(NameTimesTest, OfCompleteDigestsEachTimeIsKnown) {
  const Digests digests = Run(/*names=*/300);
  const NameTimes times(Reduce(digests), /*kernels=*/false);
  EXPECT_NEAR(times.Of("op0").ms.value_or(0), 1, 1e-3);
  EXPECT_NEAR(times.Of("large").ms.value_or(0), 20, 1e-3) << "the mean of two workers";
  EXPECT_NEAR(times.Of("small").ms.value_or(0), 0.25, 1e-3);
  EXPECT_EQ(times.Of("other").ms, 0) << "it did not happen";
  EXPECT_EQ(times.Of("other").at_most_ms, std::nullopt);
}

TEST_F(NameTimesTest, WithoutNamesNothingIsKnown) {
  const Digests digests = Run(/*names=*/300);
  const NameTimes times(Reduce(digests), /*kernels=*/true);
  EXPECT_TRUE(times.recorded_ms().empty());
  EXPECT_EQ(times.Of("gemm").ms, std::nullopt);
  EXPECT_EQ(times.Of("gemm").at_most_ms, std::nullopt);
}

// Of 600 scopes the smallest one that a digest has takes 0.34 ms.
TEST_F(NameTimesTest, WhatADigestMayHaveLeftOutIsNotKnown) {
  const Digests digests = Run(/*names=*/600);
  for (const v1::Digest& digest : digests.workers) {
    ASSERT_EQ(digest.operators_size(), 400);
    ASSERT_GT(digest.operators_left_out(), 0u);
  }
  const NameTimes times(Reduce(digests), /*kernels=*/false);
  EXPECT_NEAR(times.Of("op0").ms.value_or(0), 1, 1e-3) << "all digests have it";
  // The first worker's digest lacks "large" and "small". It would have kept "large".
  EXPECT_NEAR(times.Of("large").ms.value_or(0), 20, 1e-3);
  const NameTime small = times.Of("small");
  EXPECT_EQ(small.ms, std::nullopt);
  EXPECT_NEAR(small.at_most_ms.value_or(0), 0.25 + 0.34 / 2, 0.01);
  for (const char* name : {"op599", "other"}) {
    EXPECT_EQ(times.Of(name).ms, std::nullopt) << name;
    EXPECT_NEAR(times.Of(name).at_most_ms.value_or(0), 0.34, 0.01) << name;
  }
}

}  // namespace
}  // namespace jobscope::analysis
