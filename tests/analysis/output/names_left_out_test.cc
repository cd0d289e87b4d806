// SPDX-License-Identifier: Apache-2.0
//
// How many names a report leaves out, in each of its outputs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "analysis/output/report_html.h"
#include "analysis/output/report_text.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class NamesLeftOutTest : public RunFixture {
 protected:
  // A worker of 10 steps, each of which runs so many scopes and kernels of different names.
  void AddNames(int rank, int scopes, int kernels) {
    TraceFile trace;
    for (int step = 0; step < 10; ++step) {
      const double begin_ms = step * 100;
      trace.Step(step, begin_ms, begin_ms + 100);
      for (int i = 0; i < scopes; ++i) {
        const double at_ms = begin_ms + 0.1 * i;
        trace.Event("scope" + std::to_string(i), at_ms, at_ms + 0.05);
      }
      for (int i = 0; i < kernels; ++i) {
        const double at_ms = begin_ms + 0.1 * i;
        trace.Kernel("kernel" + std::to_string(i), at_ms, at_ms + 0.05);
      }
    }
    AddWorker(rank, "node0", trace);
  }
  static json JsonOf(const Report& report) {
    return json::parse(ReportJson(report), nullptr, false);
  }
};

// Beside the scopes there is the step itself.
TEST_F(NamesLeftOutTest, BeyondTheReportsRows) {
  AddNames(0, /*scopes=*/249, /*kernels=*/230);
  const Digests digests = DigestsOfRun();
  const Report report = Reduce(digests);
  EXPECT_THAT(ReportText(report),
              AllOf(HasSubstr("... and 190 more scopes and operators: --json has them\n"
                              "... and up to 50 further scopes and operators: --json lacks them, "
                              "too\n"),
                    HasSubstr("... and 190 more kernels: --json has them\n"
                              "... and up to 30 further kernels: --json lacks them, too\n")));
  const json written = JsonOf(report);
  EXPECT_EQ(written["operators"].size(), 200u);
  EXPECT_EQ(written["operators_left_out"], 50);
  EXPECT_EQ(written["kernels"].size(), 200u);
  EXPECT_EQ(written["kernels_left_out"], 30);
  EXPECT_THAT(ReportHtml(report),
              AllOf(HasSubstr("<p class=quiet>Up to 50 further names have no row"),
                    HasSubstr("<p class=quiet>Up to 30 further names have no row")));
}

// Two digests leave out the same names.
TEST_F(NamesLeftOutTest, BeyondThoseOfTheDigests) {
  for (const int rank : {0, 1}) AddNames(rank, /*scopes=*/449, /*kernels=*/330);
  const Digests digests = DigestsOfRun();
  for (const v1::Digest& digest : digests.workers) {
    EXPECT_EQ(digest.operators_left_out(), 50u);
    EXPECT_EQ(digest.kernels_left_out(), 30u);
  }
  const Report report = Reduce(digests);
  EXPECT_THAT(ReportText(report), AllOf(HasSubstr("... and up to 300 further scopes and operators"),
                                        HasSubstr("... and up to 160 further kernels")));
  const json written = JsonOf(report);
  EXPECT_EQ(written["operators_left_out"], 200 + 2 * 50);
  EXPECT_EQ(written["kernels_left_out"], 100 + 2 * 30);
  EXPECT_THAT(ReportHtml(report), AllOf(HasSubstr(">Up to 300 further names have no row"),
                                        HasSubstr(">Up to 160 further names have no row")));
}

TEST_F(NamesLeftOutTest, ADigestOfAnEarlierRevisionThatIsFullDoesNotTell) {
  AddNames(0, /*scopes=*/20, /*kernels=*/330);
  Digests digests = DigestsOfRun();
  digests.workers[0].clear_kernels_left_out();
  const Report report = Reduce(digests);
  EXPECT_THAT(ReportText(report), HasSubstr("... and an unknown number of further kernels: "));
  EXPECT_FALSE(JsonOf(report).contains("kernels_left_out"));
  EXPECT_THAT(ReportHtml(report), HasSubstr(">An unknown number of further names have no row"));
}

TEST_F(NamesLeftOutTest, ADigestOfAnEarlierRevisionWithRoomLeftNoneOut) {
  AddNames(0, /*scopes=*/20, /*kernels=*/20);
  Digests digests = DigestsOfRun();
  digests.workers[0].clear_kernels_left_out();
  const Report report = Reduce(digests);
  EXPECT_THAT(ReportText(report), Not(HasSubstr("--json lacks them")));
  EXPECT_EQ(JsonOf(report)["kernels_left_out"], 0);
  EXPECT_EQ(JsonOf(report)["operators_left_out"], 0);
  EXPECT_THAT(ReportHtml(report), Not(HasSubstr("have no row")));
}

// A wait, and 60 scopes inside it.
TEST_F(NamesLeftOutTest, OfInput) {
  TraceFile trace;
  for (int step = 0; step < 10; ++step) {
    const double begin_ms = step * 100;
    trace.Step(step, begin_ms, begin_ms + 100);
    trace.Input(begin_ms, begin_ms + 70);
    for (int i = 0; i < 60; ++i) {
      trace.Event("decode" + std::to_string(i), begin_ms + i, begin_ms + i + 0.5);
    }
  }
  AddWorker(0, "node0", trace);
  const Digests digests = DigestsOfRun();
  const Report report = Reduce(digests);
  EXPECT_THAT(ReportText(report),
              HasSubstr("... and 40 more names of input: --json has them\n"
                        "... and 11 further names of input: --json lacks them, too\n"));
  const json input = JsonOf(report)["input"];
  EXPECT_EQ(input["names"].size(), 50u);
  EXPECT_EQ(input["names_left_out"], 11);
  EXPECT_THAT(ReportHtml(report), HasSubstr("<p class=quiet>11 further names have no row"));
}

}  // namespace
}  // namespace jobscope::analysis
