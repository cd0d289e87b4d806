// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_OUTPUT_REPORT_TEXT_H_
#define ANALYSIS_OUTPUT_REPORT_TEXT_H_

#include <string>

#include "analysis/verdict/report.h"

namespace jobscope::analysis {

// VERDICT, WHY, NEXT and SURE: at most 100 columns, no colour, no control character.
std::string VerdictText(const Report& report);
// The same, and the tables.
std::string ReportText(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_REPORT_TEXT_H_
