// SPDX-License-Identifier: Apache-2.0
//
// Says on what a report rests.
#ifndef ANALYSIS_REPORT_SURE_TEXT_H_
#define ANALYSIS_REPORT_SURE_TEXT_H_

#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Returns Report::sure: how many steps are compared, how well the clocks agree, how many events are
// lost, how many workers and warnings there are.
std::string SureText(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_REPORT_SURE_TEXT_H_
