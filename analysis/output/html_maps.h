// SPDX-License-Identifier: Apache-2.0
//
// Draws all workers of a report as SVG: their time per step, and who arrived last. Needs no script.
#ifndef ANALYSIS_OUTPUT_HTML_MAPS_H_
#define ANALYSIS_OUTPUT_HTML_MAPS_H_

#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Draws the own time of each worker (rows) in each step (columns). If there are too many of either,
// several share a cell, which shows their largest value. Rows with workers of the verdict always
// have a label; of the other rows, every n-th has one where there is room. Returns an empty string
// if no worker has steps.
std::string HeatMap(const Report& report);

// Draws one strip per worker, the worker that was last most often first: a mark for each matched
// collective, in order of time, at which it arrived last. Returns an empty string if the last
// arrival is unknown for all collectives.
std::string LastArrivalStrips(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_HTML_MAPS_H_
