// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_OUTPUT_REPORT_JSON_H_
#define ANALYSIS_OUTPUT_REPORT_JSON_H_

#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

inline constexpr int kReportSchema = 1;

// Returns the report as described in docs/report.md: UTF-8, indented by two spaces, with a final
// line break. Equal reports give equal bytes.
std::string ReportJson(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_REPORT_JSON_H_
