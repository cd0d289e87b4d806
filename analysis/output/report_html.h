// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_OUTPUT_REPORT_HTML_H_
#define ANALYSIS_OUTPUT_REPORT_HTML_H_

#include <string>

#include "absl/status/status.h"
#include "analysis/verdict/report.h"

namespace jobscope::analysis {

// Returns one self-contained page: verdict and tables need no script; the included Chart.js draws
// the charts.
std::string ReportHtml(const Report& report);

// Writes the page atomically.
absl::Status WriteReportHtml(const Report& report, const std::string& path);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_REPORT_HTML_H_
