// SPDX-License-Identifier: Apache-2.0
//
// Draws all workers side by side as SVG, without a script.
#ifndef ANALYSIS_OUTPUT_HTML_MAPS_H_
#define ANALYSIS_OUTPUT_HTML_MAPS_H_

#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Draws the own time of each worker in each step. If there are too many, several share a cell,
// which shows their largest value. Rows of the verdict's workers have a name, however many rows
// there are; of the others every n-th has.
std::string HeatMap(const Report& report);

// Draws who arrived last at each matched collective, in order of time. Empty: unknown for all.
std::string LastStrip(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_HTML_MAPS_H_
