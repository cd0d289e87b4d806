// SPDX-License-Identifier: Apache-2.0
//
// Generates the sections of the report on memory, by allocator and device, and on other counters.
#ifndef ANALYSIS_OUTPUT_HTML_MEMORY_H_
#define ANALYSIS_OUTPUT_HTML_MEMORY_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Two sections: memory, and other counters. Empty where nothing is recorded.
std::string MemorySection(const Report& report);

// What report.js draws in them: chart to lines of points.
nlohmann::ordered_json MemoryLines(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_HTML_MEMORY_H_
