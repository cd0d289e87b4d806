// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_OUTPUT_REPORT_JSON_H_
#define ANALYSIS_OUTPUT_REPORT_JSON_H_

#include <string>

#include "analysis/verdict/report.h"

namespace jobscope::analysis {

inline constexpr int kReportSchema = 1;

// The report as docs/report.md describes it: UTF-8, two spaces of indentation, a line break at the
// end. The same report gives the same bytes.
std::string ReportJson(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_REPORT_JSON_H_
