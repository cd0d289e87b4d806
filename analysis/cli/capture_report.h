// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_CLI_CAPTURE_REPORT_H_
#define ANALYSIS_CLI_CAPTURE_REPORT_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"

namespace jobscope::analysis {

// Makes the report for `capture --report`: writes <run_directory>/report.html with the permissions
// `mode`. Sets `text` to the verdict's lines and the page's path, or on an error to as many of them
// as there are.
absl::Status ReportOfCapture(const std::string& run_directory, mode_t mode, std::string* text);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_CLI_CAPTURE_REPORT_H_
