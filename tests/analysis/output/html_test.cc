// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/output/report_html.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(HtmlTest, TextIsNoMarkup) {
  EXPECT_EQ(EscapeHtml("<b a='1' c=\"2\">&\x1b"), "&lt;b a=&#39;1&#39; c=&quot;2&quot;&gt;&amp;?");
  EXPECT_EQ(EscapeScript("\"</script>\""), "\"\\u003c/script>\"");
}

class ReportHtmlTest : public RunFixture {
 protected:
  std::string Page() {
    const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
    EXPECT_TRUE(digests.ok());
    return digests.ok() ? ReportHtml(Reduce(*digests)) : std::string();
  }
};

TEST_F(ReportHtmlTest, VerdictAndTablesNeedNoScript) {
  AddRanks(
      4, 30, [](int rank, int) { return rank == 1 ? 30.0 : 5.0; }, [](int, int) { return 50.0; });
  WriteManifest();
  const std::string page = Page();
  const std::string before_scripts = page.substr(0, page.find("<script"));
  EXPECT_THAT(before_scripts, HasSubstr("<h1>1.40x slower than its median rank allows: rank 1"));
  EXPECT_THAT(before_scripts, HasSubstr("id=workers>"));
  EXPECT_THAT(before_scripts, HasSubstr("id=operators>"));
  EXPECT_THAT(before_scripts, HasSubstr("id=classes>"));
  EXPECT_THAT(before_scripts, HasSubstr("<td class=text>input</td><td>11.25</td><td>12.8</td><td>"
                                        "5.00</td><td>30.00</td><td class=text>rank 1 (node0)"));
  EXPECT_THAT(before_scripts, HasSubstr("id=input-names>"));
  EXPECT_THAT(before_scripts, HasSubstr("<td class=text>next_batch</td><td class=text>wait</td>"));
  EXPECT_THAT(before_scripts, HasSubstr("id=input-workers>"));
  EXPECT_THAT(before_scripts, HasSubstr("id=collectives>"));
  EXPECT_THAT(before_scripts, HasSubstr("<svg"));
  EXPECT_LT(page.size(), size_t{1} << 20);
}

// One view beside each of the TensorFlow profiler's, and none of them is empty.
TEST_F(ReportHtmlTest, ATrainingRunHasAllViews) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 30; ++step) {
      const double begin_ms = step * 100 + (step > 20 ? 50 : 0);
      const double end_ms = begin_ms + 100 + (step == 20 ? 50 : 0);
      const double ready_ms = begin_ms + (rank == 1 ? 45 : 5);
      trace.Step(step, begin_ms, end_ms);
      trace.Input(begin_ms, ready_ms);
      trace.Event("forward", ready_ms, ready_ms + 40);
      trace.Kernel("gemm", ready_ms, ready_ms + 30);
      trace.Allocation("GPU_0_bfc", ready_ms, (900 + step) << 20, 2600 << 20, 4096, "forward");
      trace.AllReduce(step, ready_ms + 40, end_ms);
      trace.Counter("loss", begin_ms, 1.0 / (1 + step));
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const std::string page = Page();
  for (const std::string view : {"workers", "classes", "steps", "timeline", "input", "collectives",
                                 "operators", "kernels", "memory", "counters"}) {
    const size_t begin = page.find("<h2 id=s-" + view + ">");
    ASSERT_NE(begin, std::string::npos) << view;
    const std::string section = page.substr(begin, page.find("<h2", begin + 1) - begin);
    EXPECT_TRUE(section.find("<td") != std::string::npos ||
                section.find("<path") != std::string::npos)
        << view;
  }
  for (const char* title : {"<figcaption>Step 20: the slowest step,", ": a median step,",
                            ", where the verdict costs most,"}) {
    EXPECT_THAT(page, HasSubstr(title));
  }
}

// What the page has no room for is stated on it.
class LeftOutTest : public ReportHtmlTest {
 protected:
  // The labels of the chart of steps.
  static json StepLabels(const std::string& page) {
    const std::string tag = "<script type=application/json id=data>";
    const size_t begin = page.find(tag) + tag.size();
    const json data = json::parse(page.substr(begin, page.find("</script>", begin) - begin));
    return data["steps"]["labels"];
  }
};

TEST_F(LeftOutTest, OfManyStepsTheFirstAreDrawn) {
  AddRanks(
      2, 300, [](int rank, int) { return rank == 1 ? 30.0 : 5.0; }, [](int, int) { return 50.0; });
  WriteManifest();
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("by class: 200 of 300 steps, from step 100 to 299"));
  EXPECT_EQ(StepLabels(page).size(), 200u);
}

TEST_F(LeftOutTest, OfManyStepsThoseAroundTheSlowOneAreDrawn) {
  AddRanks(4, 300, Jitter,
           [](int rank, int step) { return rank == 2 && step == 250 ? 4000.0 : 50.0; });
  WriteManifest();
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("<h1>one step is slow: step 350 on rank 2"));
  EXPECT_THAT(page, HasSubstr("by class: 200 of 300 steps, from step 200 to 399"));
  const json labels = StepLabels(page);
  EXPECT_EQ(labels.size(), 200u);
  EXPECT_EQ(labels[150], "350");
}

TEST_F(LeftOutTest, OfManyCollectivesAllAreCounted) {
  for (int rank = 0; rank < 2; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 30; ++step) {
      const double begin_ms = step * 100;
      trace.Step(step, begin_ms, begin_ms + 100);
      for (int i = 0; i < 100; ++i) {
        trace.AllReduce(step * 100 + i, begin_ms + i + 0.2 * rank, begin_ms + i + 0.5);
      }
    }
    AddWorker(rank, "node0", trace);
  }
  WriteManifest();
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr(">rank 1 (node0): 3000<"));
  EXPECT_THAT(page, HasSubstr("The first 2000 of 3000 collectives are drawn"));
}

// The names beside the map of own times.
class MapNamesTest : public ReportHtmlTest {
 protected:
  static std::string Names(const std::string& page) {
    const size_t begin = page.find("<div class=\"quiet rows\">");
    EXPECT_NE(begin, std::string::npos);
    return begin == std::string::npos ? std::string()
                                      : page.substr(begin, page.find("<svg", begin) - begin);
  }
};

TEST_F(MapNamesTest, OfFewRowsAllHaveTheirNames) {
  AddRanks(8, 10, Jitter, [](int rank, int) { return rank == 5 ? 80.0 : 50.0; });
  WriteManifest();
  const std::string page = Page();
  const std::string names = Names(page);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_THAT(names, HasSubstr("rank " + std::to_string(rank) + " (node"));
  }
  EXPECT_THAT(names, HasSubstr("><b>rank 5 (node1)</b><"));
  EXPECT_THAT(names, HasSubstr(">rank 6 (node1)<"));
  EXPECT_THAT(page, HasSubstr("; rows with workers of the verdict are bold."));
  EXPECT_THAT(page, Not(HasSubstr("rows has its name")));
}

TEST_F(MapNamesTest, OfManyRowsSomeAndThatOfTheVerdictHaveTheirNames) {
  AddRanks(40, 10, Jitter, [](int rank, int) { return rank == 33 ? 80.0 : 50.0; });
  WriteManifest();
  const std::string page = Page();
  const std::string names = Names(page);
  for (int rank = 0; rank < 40; ++rank) {
    const std::string name = ">rank " + std::to_string(rank) + " (node";
    if (rank == 33) {
      EXPECT_THAT(names, HasSubstr("><b>rank 33 (node8)</b><"));
    } else if (rank % 2 == 0 && rank != 32 && rank != 34) {
      EXPECT_THAT(names, HasSubstr(name));
    } else {
      EXPECT_THAT(names, Not(HasSubstr(name)));  // of 32 and 34: no room beside 33
    }
  }
  EXPECT_THAT(page,
              HasSubstr("One row per worker, one column per step; one of 2 rows has its name"));
}

TEST_F(MapNamesTest, NeighboursOfTheVerdictShareANameIfTheirRowsAreLow) {
  AddRanks(40, 10, Jitter, [](int rank, int) { return rank / 4 == 8 ? 80.0 : 50.0; });
  WriteManifest();
  const std::string names = Names(Page());
  EXPECT_THAT(names, HasSubstr("><b>rank 32 (node8) to rank 33 (node8)</b><"));
  EXPECT_THAT(names, HasSubstr("><b>rank 34 (node8) to rank 35 (node8)</b><"));
}

TEST_F(MapNamesTest, OfAThousandWorkersTheRowOfTheVerdictHasTheRangeOfItsWorkers) {
  AddRanks(2, 10, Jitter, [](int rank, int) { return rank == 1 ? 80.0 : 50.0; });
  WriteManifest();
  absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  ASSERT_EQ(digests->workers.size(), 2u);
  const v1::Digest fast = digests->workers[0];
  const v1::Digest slow = digests->workers[1];
  digests->workers.clear();
  for (int rank = 0; rank < 1024; ++rank) {
    digests->workers.push_back(rank == 517 ? slow : fast);
    digests->workers.back().set_name("w" + std::to_string(rank));
    digests->workers.back().set_rank(rank);
    digests->workers.back().set_host("node" + std::to_string(rank / 8));
  }
  const std::string page = ReportHtml(Reduce(*digests));
  EXPECT_THAT(page, HasSubstr("its median rank allows: rank 517 (node64), host work</h1>"));
  const std::string names = Names(page);
  EXPECT_THAT(names, HasSubstr("><b>rank 512 (node64) to rank 519 (node64)</b><"));
  EXPECT_THAT(names, HasSubstr(">rank 0 (node0) to rank 7 (node0)<"));
  EXPECT_THAT(names, Not(HasSubstr(">rank 8 (node1) to ")));
  EXPECT_THAT(names, HasSubstr(">rank 32 (node4) to rank 39 (node4)<"));
  EXPECT_THAT(page,
              HasSubstr("One row per 8 workers, one column per step; one of 4 rows has its name"));
}

TEST_F(LeftOutTest, OfManyWorkersThatAreLastSomeAreDrawn) {
  AddRanks(20, 40, Jitter, [](int rank, int step) { return step % 20 == rank ? 80.0 : 50.0; });
  WriteManifest();
  EXPECT_THAT(Page(), HasSubstr("The 16 workers that were last most often, of 20"));
}

TEST_F(LeftOutTest, OfManyMissingWorkersTheRestIsCounted) {
  AddRanks(2, 10, Jitter, [](int, int) { return 50.0; });
  for (int i = 0; i < 300; ++i) AddMissing("gone" + std::to_string(i), "unreachable", "refused");
  WriteManifest();
  EXPECT_THAT(Page(), HasSubstr("<li>and 100 more missing: "));
}

TEST_F(LeftOutTest, OfManyCountersSomeAreDrawn) {
  TraceFile trace;
  for (int step = 0; step < 10; ++step) {
    trace.Step(step, step * 10, step * 10 + 10);
    trace.Event("forward", step * 10, step * 10 + 9);
    for (int i = 0; i < 10; ++i) trace.Counter("counter" + std::to_string(i), step * 10, i);
  }
  AddWorker(0, "node0", trace);
  WriteManifest();
  EXPECT_THAT(Page(), HasSubstr("8 of 10 have a chart."));
  absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const v1::Digest first = digests->workers.front();
  for (int rank = 1; rank < 500; ++rank) {
    digests->workers.push_back(first);
    digests->workers.back().set_name("w" + std::to_string(rank));
    digests->workers.back().set_rank(rank);
  }
  const std::string page = ReportHtml(Reduce(*digests));
  EXPECT_THAT(page, HasSubstr(">counter0: 16 of 500 workers<"));
  EXPECT_THAT(page, HasSubstr("The first 4096 of 5000 rows; --json has all"));
}

// What a long capture of GPU workers has: full samples of all counters of a GPU, memory, timelines.
class PageSizeTest : public ReportHtmlTest {
 protected:
  void Make(int ranks, int steps) {
    std::vector<std::string> counters = {
        "utilization (%)", "memory utilization (%)",  "memory used (MiB)",
        "power (W)",       "SM clock (MHz)",          "memory clock (MHz)",
        "temperature (C)", "clocks limited by power", "clocks limited by heat"};
    TraceFile trace;
    for (int step = 0; step < steps; ++step) {
      const double begin_ms = step * 50;
      trace.Step(step, begin_ms, begin_ms + 50);
      trace.Input(begin_ms, begin_ms + 4);
      trace.Event("forward", begin_ms + 4, begin_ms + 40);
      for (int i = 0; i < 60; ++i) {
        const double at_ms = begin_ms + 5 + i * 0.5;
        trace.Event("aten::op_" + std::to_string(i % 40), at_ms, at_ms + 0.3);
        trace.Kernel(i % 2 == 0 ? "gemm" : "MemcpyHtoD", at_ms, at_ms + 0.4, 7 + i % 4);
      }
      trace.Allocation("GPU_0_bfc", begin_ms, (900 + step) << 20, 2600 << 20, 4096, "aten::op_1");
      trace.AllReduce(step, begin_ms + 40, begin_ms + 49);
      trace.Counter("process RSS (MiB)", begin_ms, 2000.123 + 0.317 * step);
    }
    for (int sample = 0; sample < 255; ++sample) {
      for (const std::string& counter : counters) {
        trace.GpuCounter(counter, sample * 7.123456, 1234.5678 + 0.317 * sample);
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      AddWorker(rank, "node" + std::to_string(rank / 8), trace);
    }
    WriteManifest();
  }
};

TEST_F(PageSizeTest, OfEightWorkersIsBelowOneMegabyte) {
  Make(/*ranks=*/8, /*steps=*/255);
  EXPECT_LT(Page().size(), 1'000'000u);
}

TEST_F(PageSizeTest, OfAThousandWorkersIsBelowFiveMegabytes) {
  Make(/*ranks=*/1, /*steps=*/20);
  absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const v1::Digest first = digests->workers.front();
  for (int rank = 1; rank < 1024; ++rank) {
    digests->workers.push_back(first);
    digests->workers.back().set_name("w" + std::to_string(rank));
    digests->workers.back().set_rank(rank);
  }
  EXPECT_LT(ReportHtml(Reduce(*digests)).size(), 5'000'000u);
}

TEST_F(ReportHtmlTest, NothingIsAskedFor) {
  AddRanks(
      2, 10, [](int, int) { return 5.0; }, [](int, int) { return 50.0; });
  WriteManifest();
  const std::string page = Page();
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  for (const char* request : {" src=", "<link", "@import", "url(", "fetch(", "XMLHttpRequest"}) {
    EXPECT_THAT(page, Not(HasSubstr(request))) << request;
  }
}

TEST_F(ReportHtmlTest, NamesCannotEndTheScript) {
  TraceFile trace;
  for (int step = 0; step < 10; ++step) {
    trace.Step(step, step * 10, step * 10 + 10);
    trace.Event("</script><img src=x>", step * 10, step * 10 + 9);
  }
  AddWorker(0, "</script><script>alert(1)</script>", trace);
  WriteManifest();
  const std::string page = Page();
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  size_t ends = 0;
  for (size_t at = page.find("</script"); at != std::string::npos;
       at = page.find("</script", at + 1)) {
    ++ends;
  }
  EXPECT_EQ(ends, 3u);
}

TEST_F(ReportHtmlTest, APageThatCannotBeWrittenIsAnError) {
  AddRanks(
      2, 10, [](int, int) { return 5.0; }, [](int, int) { return 50.0; });
  const absl::StatusOr<Digests> digests = ReadDigests(directory_.path());
  ASSERT_TRUE(digests.ok());
  const absl::Status status = WriteReportHtml(Reduce(*digests), "/nonexistent/report.html");
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/nonexistent/.report.html."), HasSubstr(".partial: No such")));
}

}  // namespace
}  // namespace jobscope::analysis
