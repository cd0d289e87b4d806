// SPDX-License-Identifier: Apache-2.0
//
// Generates the sections of the report that list names: input waits, scopes and operators, kernels.
#ifndef ANALYSIS_OUTPUT_HTML_NAMES_H_
#define ANALYSIS_OUTPUT_HTML_NAMES_H_

#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Returns the section of the workers that wait for input, and of the names that they wait in. Empty
// if no input is recorded.
std::string InputSection(const Report& report);

// Returns two sections: scopes and operators, and kernels. A section without names is omitted.
std::string NameSections(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_HTML_NAMES_H_
