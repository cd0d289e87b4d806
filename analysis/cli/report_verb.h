// SPDX-License-Identifier: Apache-2.0
//
// Implements the verb `report`: docs/report.md.
#ifndef ANALYSIS_CLI_REPORT_VERB_H_
#define ANALYSIS_CLI_REPORT_VERB_H_

#include <string>
#include <vector>

namespace jobscope::analysis {

// Prints the report, given all arguments of main. Returns the exit code: 0 with a report, even if
// "not decidable"; 1 if it could not be written; 2 for wrong usage; 4 if nothing is readable.
int ReportVerb(const std::vector<std::string>& arguments);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_CLI_REPORT_VERB_H_
