// SPDX-License-Identifier: Apache-2.0
//
// Digests that the report does not take.
#include "analysis/verdict/reduce.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

class RefusedDigestTest : public RunFixture {
 protected:
  // Two workers of 10 steps with a scope and a kernel each, of names with their rank.
  Digests DigestsOfTwo() {
    for (int rank = 0; rank < 2; ++rank) {
      TraceFile trace;
      for (int step = 0; step < 10; ++step) {
        const double begin_ms = 10.0 * step;
        trace.Step(step, begin_ms, begin_ms + 10);
        trace.Event("scope" + std::to_string(rank), begin_ms, begin_ms + 8);
        trace.Kernel("kernel" + std::to_string(rank), begin_ms, begin_ms + 6);
      }
      AddWorker(rank, "node0", trace);
    }
    return DigestsOfRun();
  }
  static std::vector<std::string> NamesOf(const std::vector<NameRow>& rows) {
    std::vector<std::string> names;
    for (const NameRow& row : rows) names.push_back(row.name);
    return names;
  }
};

TEST_F(RefusedDigestTest, LeavesNoNames) {
  Digests digests = DigestsOfTwo();
  ASSERT_EQ(digests.workers.size(), 2u);
  EXPECT_THAT(NamesOf(Reduce(digests).operators), IsSupersetOf({"scope0", "scope1"}));
  digests.workers[1].mutable_steps()->add_number(1);  // its columns differ in length
  digests.workers[1].set_operators_left_out(7);
  digests.workers[1].set_kernels_left_out(7);
  const Report report = Reduce(digests);
  ASSERT_EQ(report.workers.size(), 1u);
  ASSERT_EQ(report.missing.size(), 1u);
  EXPECT_EQ(report.missing[0].worker, "w1");
  EXPECT_THAT(NamesOf(report.operators), testing::Not(testing::Contains("scope1")));
  EXPECT_THAT(NamesOf(report.kernels), ElementsAre("kernel0"));
  EXPECT_EQ(report.operators_left_out, 0u);
  EXPECT_EQ(report.kernels_left_out, 0u);
  for (const NameRow& row : report.operators) EXPECT_EQ(row.workers, 1u) << row.name;
}

TEST_F(RefusedDigestTest, OfAnotherSchemaLeavesNoNames) {
  Digests digests = DigestsOfTwo();
  ASSERT_EQ(digests.workers.size(), 2u);
  for (v1::Digest& digest : digests.workers) digest.set_schema(kDigestSchema - 1);
  const Report report = Reduce(digests);
  EXPECT_EQ(report.missing.size(), 2u);
  EXPECT_THAT(NamesOf(report.operators), IsEmpty());
  EXPECT_THAT(NamesOf(report.kernels), IsEmpty());
}

}  // namespace
}  // namespace jobscope::analysis
