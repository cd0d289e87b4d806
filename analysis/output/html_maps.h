// SPDX-License-Identifier: Apache-2.0
//
// Draws all workers side by side as SVG, without a script.
#ifndef ANALYSIS_OUTPUT_HTML_MAPS_H_
#define ANALYSIS_OUTPUT_HTML_MAPS_H_

#include <string>

#include "analysis/verdict/report.h"

namespace jobscope::analysis {

// Own time of each worker in each step. Many workers or steps share a cell, by their largest.
std::string HeatMap(const Report& report);

// Who arrived last at each matched collective, in the order of time. Empty: not known of any.
std::string LastStrip(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_HTML_MAPS_H_
