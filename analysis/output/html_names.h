// SPDX-License-Identifier: Apache-2.0
//
// What took the time, by name: input waits, scopes and operators, kernels.
#ifndef ANALYSIS_OUTPUT_HTML_NAMES_H_
#define ANALYSIS_OUTPUT_HTML_NAMES_H_

#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Who waits for input, and with what. Empty where no input is recorded.
std::string InputSection(const Report& report);

// Two sections: scopes and operators, and kernels. Empty where nothing is recorded.
std::string NameSections(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_HTML_NAMES_H_
