// SPDX-License-Identifier: Apache-2.0
#include "analysis/output/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "analysis/output/report_html.h"
#include "tests/analysis/run_fixture.h"

namespace jobscope::analysis {
namespace {

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
  EXPECT_THAT(before_scripts, HasSubstr("id=collectives>"));
  EXPECT_THAT(before_scripts, HasSubstr("<svg"));
  EXPECT_LT(page.size(), size_t{1} << 20);
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
              HasSubstr("/nonexistent/.report.html.partial: No such"));
}

}  // namespace
}  // namespace jobscope::analysis
