// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_CLI_CAPTURE_REPORT_H_
#define ANALYSIS_CLI_CAPTURE_REPORT_H_

#include <sys/types.h>

#include <string>

namespace jobscope::analysis {

// Makes the report for `capture --report`: writes <run_directory>/report.html with the permissions
// `mode`, and returns the verdict's lines with its path, or one line that explains why there is no
// report.
std::string ReportOfCapture(const std::string& run_directory, mode_t mode);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_CLI_CAPTURE_REPORT_H_
