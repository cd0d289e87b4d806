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

void ExpectFits(const std::string& text) {
  size_t begin = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
}

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
  ExpectFits(text);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

// Steps of an hour, of hosts with long names, and millions of lost events.
TEST_F(ReportTextTest, LargeFiguresFitAndAreNotCut) {
  AddRanks(
      4, 10, [](int rank, int) { return rank == 1 ? 3e6 : 123456.78; },
      [](int, int) { return 600000.5; });
  for (json& worker : workers_) {
    worker["rank"] = 1000 + worker["rank"].get<int>();
    worker["host"] = "node-of-a-large-cluster-0127";
    worker["lost"] = 12345678;
  }
  WriteManifest();
  absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  for (v1::Digest& digest : digests->workers) {
    v1::DigestName* name = digest.mutable_operators(0);
    name->set_name(std::string(60, 'n'));
    name->set_count(123'456'789'012);
    name->set_total_ns(uint64_t{1} << 60);
    name->set_self_ns(uint64_t{1} << 59);
    name->set_max_ns(uint64_t{1} << 58);
  }
  const std::string text = ReportText(Reduce(*digests));
  ExpectFits(text);
  for (const char* figure : {"12345678", "493827156048", "3600000", "3000000"}) {
    EXPECT_THAT(text, HasSubstr(figure));
  }
}

TEST_F(ReportTextTest, DeviceTimeHasAColumn) {
  TraceFile trace;
  for (int step = 0; step < 10; ++step) {
    trace.Step(step, step * 10, step * 10 + 10);
    trace.Kernel("gemm", step * 10, step * 10 + 6);
    trace.Kernel("MemcpyHtoD", step * 10 + 5, step * 10 + 7, 8);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  EXPECT_THAT(ReportText(Reduce(*digests)),
              testing::ContainsRegex("INPUT  DEVICE  LOST\nrank 0 .node0. .* +-    7.00     0\n"));
}

// After a capture nothing else shows them.
TEST_F(ReportTextTest, TheVerdictComesWithItsWarnings) {
  AddRanks(4, 20, Jitter, [](int, int) { return 50.0; });
  TraceFile few;
  for (int step = 0; step < 3; ++step) few.Step(100 + step, step * 60, step * 60 + 50);
  AddWorker(9, "node0", few);
  workers_[0]["outcome"] = "interrupted";
  workers_[1]["files"].push_back({{"path", "lost.xplane.pb"}});
  workers_[2]["rank"] = 3;
  WriteManifest(/*schema=*/99);
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const Report report = Reduce(*digests);
  const std::string text = VerdictText(report);
  ExpectFits(text);
  std::string flat;
  for (size_t i = 0; i < text.size(); ++i) {  // lines are wrapped
    if (text[i] != ' ' && text[i] != '\n') flat += text[i];
  }
  for (const char* warning :
       {"WARNINGw0:interrupted:itstraceendsbeforethecapturedid",
        "WARNINGw1:apartofitstraceisleftout:lost.xplane.pb", "WARNINGrank3twice",
        "1workerrecordedfewerthan8steps", "WARNINGcapture.jsonhasschema99"}) {
    EXPECT_THAT(flat, HasSubstr(warning)) << text;
  }
  EXPECT_THAT(report.sure, HasSubstr("5 of 5 workers, 5 warnings"));
  EXPECT_THAT(ReportText(report), testing::Not(HasSubstr("--json has them")));
}

TEST_F(ReportTextTest, InputHasASection) {
  for (int rank = 0; rank < 2; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 10; ++step) {
      const double begin_ms = step * 20;
      trace.Step(step, begin_ms, begin_ms + 20);
      trace.Input(begin_ms, begin_ms + (rank == 1 ? 2 : 1));
      trace.Event("decode", begin_ms, begin_ms + (rank == 1 ? 1.5 : 0.5));
      trace.Event("decode", begin_ms + 5, begin_ms + 9);  // in no wait
      trace.Event("forward", begin_ms + 9, begin_ms + 20);
    }
    trace.Source("decode", "images.py:17");
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const Report report = Reduce(*digests);
  EXPECT_THAT(
      ReportText(report),
      HasSubstr("INPUT OF        ms PER STEP   SHARE\n"
                "rank 1 (node0)         2.00  10.0 %\n"
                "rank 0 (node0)         1.00   5.0 %\n"
                "\n"
                "INPUT WAIT, OR INSIDE ONE  MEAN ms  MOST ms  MOST IN         SOURCE\n"
                "next_batch                    1.50     2.00  rank 1 (node0)\n"
                "  decode                      1.00     1.50  rank 1 (node0)  images.py:17\n"));
  const json input = ReportOfRun()["input"];
  EXPECT_EQ(input["workers"][0], json({{"worker", "w1"}, {"ms", 2.0}, {"share", 0.1}}));
  EXPECT_EQ(input["names"][1], json({{"name", "decode"},
                                     {"wait", false},
                                     {"source", "images.py:17"},
                                     {"ms", 1.0},
                                     {"workers", 2},
                                     {"most_ms", 1.5},
                                     {"most_in", "w1"}}));
}

TEST_F(ReportTextTest, WarningsThatAreLeftOutAreCounted) {
  AddRanks(4, 10, Jitter, [](int, int) { return 50.0; });
  WriteManifest();
  absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  for (int i = 0; i < 25; ++i) digests->run.add_warnings("warning " + std::to_string(i));
  EXPECT_THAT(ReportText(Reduce(*digests)), HasSubstr("and 5 more: --json has them"));
  EXPECT_THAT(VerdictText(Reduce(*digests)), HasSubstr("and 20 more: --json has them"));
}

TEST_F(ReportTextTest, RowsThatAreLeftOutAreCounted) {
  TraceFile trace;
  for (int step = 0; step < 20; ++step) {
    const double begin_ms = step * 50;
    trace.Step(step, begin_ms, begin_ms + 50);
    for (int i = 0; i < 15; ++i) {
      const std::string name = std::to_string(i);
      trace.Event("operator" + name, begin_ms + i, begin_ms + i + 0.9);
      trace.Kernel("kernel" + name, begin_ms + i, begin_ms + i + 0.5);
      trace.AllReduce(step, begin_ms + 30 + i, begin_ms + 30.5 + i, name);
    }
    for (int i = 0; i < 23; ++i) trace.Counter("counter" + std::to_string(i), begin_ms, i);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const std::string text = ReportText(Reduce(*digests));
  for (const char* left_out :
       {"... and 5 more kernels: --json", "... and 5 more collectives: --json",
        "... and 7 more scopes and operators: --json", "... and 3 more counters: --json"}) {
    EXPECT_THAT(text, HasSubstr(left_out));
  }
}

TEST_F(ReportTextTest, FindingsThatAreLeftOutAreCounted) {
  for (int worker = 0; worker < 16; ++worker) {
    TraceFile trace;
    const double step_ms = worker < 7 ? 20 : 10;
    for (int step = 0; step < 40; ++step) {
      trace.Step(step, step * step_ms, step * step_ms + step_ms);
      trace.Input(step * step_ms, step * step_ms + step_ms - 5);
    }
    AddWorker(worker, "node0", trace);
  }
  WriteManifest();
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const std::string text = ReportText(Reduce(*digests));
  EXPECT_THAT(text, HasSubstr("and 2 more findings: --json"));
  EXPECT_THAT(text, HasSubstr("... and 6 more workers with input: --json"));
}

}  // namespace
}  // namespace jobscope::analysis
