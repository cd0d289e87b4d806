// SPDX-License-Identifier: Apache-2.0
//
// Implements the verb `report`: docs/report.md.
#ifndef ANALYSIS_CLI_REPORT_VERB_H_
#define ANALYSIS_CLI_REPORT_VERB_H_

#include <string>
#include <vector>

namespace jobscope::analysis {

// For main, with all of its arguments: whether the program was called as `jobscope report ...` or
// `capture report ...`.
bool IsReportVerb(const std::vector<std::string>& arguments);

// Prints the answer. Returns the exit code: 0 an answer, "not decidable" too; 1 it could not be
// written; 2 usage; 4 nothing readable.
int ReportVerb(const std::vector<std::string>& arguments);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_CLI_REPORT_VERB_H_
