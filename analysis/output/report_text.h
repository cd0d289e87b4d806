// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_OUTPUT_REPORT_TEXT_H_
#define ANALYSIS_OUTPUT_REPORT_TEXT_H_

#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Returns VERDICT, WHY, NEXT, SURE and the first WARNINGs in at most 100 columns, without colours
// or control characters.
std::string VerdictText(const Report& report);
// Returns the same, and the tables.
std::string ReportText(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_REPORT_TEXT_H_
