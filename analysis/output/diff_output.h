// SPDX-License-Identifier: Apache-2.0
//
// Writes a comparison of two runs, for people and for programs.
#ifndef ANALYSIS_OUTPUT_DIFF_OUTPUT_H_
#define ANALYSIS_OUTPUT_DIFF_OUTPUT_H_

#include <string>

#include "analysis/verdict/diff.h"

namespace jobscope::analysis {

// Formats the comparison in at most 100 columns: outcome, class, name, then the tables.
std::string DiffText(const RunDiff& diff, double gate_percent);

// Returns one JSON object, `"schema": 3`, with the fields described in docs/report.md.
std::string DiffJson(const RunDiff& diff);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_DIFF_OUTPUT_H_
