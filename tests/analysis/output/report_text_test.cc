// SPDX-License-Identifier: Apache-2.0
//
// The report in a terminal.
#include "analysis/output/report_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::HasSubstr;

class ReportTextTest : public RunFixture {};

TEST_F(ReportTextTest, TheTerminalHasAHundredColumnsAndNoControlCharacters) {
  AddRanks(
      4, 30, [](int rank, int step) { return (rank == 1 ? 30 : 5) + Jitter(rank, step); },
      [](int, int) { return 50.0; });
  TraceFile trace;
  trace.Event("\x1b[2J</script>\n" + std::string(300, 'x'), 0, 10);
  AddWorker(9, "node\x1b[31m", trace);
  WriteManifest();
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const std::string text = ReportText(Reduce(*digests));
  EXPECT_EQ(text.rfind("VERDICT", 0), 0u) << text;
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST_F(ReportTextTest, WarningsThatAreLeftOutAreCounted) {
  AddRanks(4, 10, Jitter, [](int, int) { return 50.0; });
  WriteManifest();
  absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  for (int i = 0; i < 25; ++i) digests->run.add_warnings("warning " + std::to_string(i));
  EXPECT_THAT(ReportText(Reduce(*digests)), HasSubstr("and 5 more: --json has them"));
}

}  // namespace
}  // namespace jobscope::analysis
