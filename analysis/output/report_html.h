// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_OUTPUT_REPORT_HTML_H_
#define ANALYSIS_OUTPUT_REPORT_HTML_H_

#include <string>

#include "absl/status/status.h"
#include "analysis/verdict/report.h"

namespace jobscope::analysis {

// One page that asks for nothing else: verdict and tables need no script, charts are drawn by
// Chart.js, which it carries.
std::string ReportHtml(const Report& report);

// Writes it whole or not at all.
absl::Status WriteReportHtml(const Report& report, const std::string& path);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_REPORT_HTML_H_
