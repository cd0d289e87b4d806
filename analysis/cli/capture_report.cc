// SPDX-License-Identifier: Apache-2.0
#include "analysis/cli/capture_report.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analysis/digest/map_run.h"
#include "analysis/output/report_html.h"
#include "analysis/output/report_text.h"
#include "analysis/verdict/reduce.h"

namespace jobscope::analysis {

absl::Status ReportOfCapture(const std::string& run_directory, mode_t mode, std::string* text) {
  const absl::StatusOr<Digests> digests = ReadDigests(run_directory);
  if (!digests.ok()) return digests.status();
  if (digests->workers.empty()) return absl::NotFoundError("no worker's trace can be read");
  const Report report = Reduce(*digests);
  *text = VerdictText(report);
  const std::string path = absl::StrCat(run_directory, "/report.html");
  absl::Status written = WriteReportHtml(report, path, mode);
  if (written.ok()) absl::StrAppend(text, "REPORT   ", path, "\n");
  return written;
}

}  // namespace jobscope::analysis
