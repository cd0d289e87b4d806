// SPDX-License-Identifier: Apache-2.0
//
// Draws chosen steps of several workers as SVG, event by event.
#ifndef ANALYSIS_OUTPUT_HTML_TIMELINE_H_
#define ANALYSIS_OUTPUT_HTML_TIMELINE_H_

#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// One figure per step of `report.timeline`; empty if there is none. Without scripts it is a picture
// with tooltips; report.js adds zoom and keys.
std::string Timelines(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_HTML_TIMELINE_H_
