// SPDX-License-Identifier: Apache-2.0
//
// Generates the sections of the report on memory, by allocator and device, and on other counters.
#ifndef ANALYSIS_OUTPUT_HTML_MEMORY_H_
#define ANALYSIS_OUTPUT_HTML_MEMORY_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Returns the sections on memory and on other counters; leaves out one without recorded values.
std::string MemorySection(const Report& report);

// Returns the lines that report.js draws in the charts of these sections, by the chart's id.
nlohmann::ordered_json MemoryLines(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_HTML_MEMORY_H_
