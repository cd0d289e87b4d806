// SPDX-License-Identifier: Apache-2.0
#include "analysis/cli/capture_report.h"

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analysis/digest/map_run.h"
#include "analysis/output/report_html.h"
#include "analysis/output/report_text.h"
#include "analysis/verdict/reduce.h"

namespace jobscope::analysis {

std::string ReportOfCapture(const std::string& run_directory, mode_t mode) {
  const absl::StatusOr<Digests> digests = ReadDigests(run_directory);
  if (!digests.ok()) return absl::StrCat("REPORT   none: ", digests.status().message(), "\n");
  if (digests->workers.empty()) return "REPORT   none: no worker's trace can be read\n";
  const Report report = Reduce(*digests);
  const std::string path = absl::StrCat(run_directory, "/report.html");
  const absl::Status written = WriteReportHtml(report, path, mode);
  return absl::StrCat(VerdictText(report), "REPORT   ",
                      written.ok() ? path : std::string(written.message()), "\n");
}

}  // namespace jobscope::analysis
