// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_OUTPUT_REPORT_HTML_H_
#define ANALYSIS_OUTPUT_REPORT_HTML_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "analysis/report/report.h"
#include "common/files/file_sink.h"

namespace jobscope::analysis {

// Returns one self-contained page: verdict and tables need no script; the included Chart.js draws
// the charts.
std::string ReportHtml(const Report& report);

// Writes the page to `path`, as WriteWholeFile does, with the permissions `mode`.
absl::Status WriteReportHtml(const Report& report, const std::string& path,
                             mode_t mode = kPrivateFileMode);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_REPORT_HTML_H_
