// SPDX-License-Identifier: Apache-2.0
//
// Implements the verb `diff`: docs/report.md.
#ifndef ANALYSIS_CLI_DIFF_VERB_H_
#define ANALYSIS_CLI_DIFF_VERB_H_

#include <string>
#include <vector>

namespace jobscope::analysis {

// Prints how two runs differ, given all arguments of main. Returns 0; 1 if the second one is slower
// by the gate or more; 2 for wrong usage and runs that cannot be compared; 4 if nothing is
// readable.
int DiffVerb(const std::vector<std::string>& arguments);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_CLI_DIFF_VERB_H_
