// SPDX-License-Identifier: Apache-2.0
//
// Generates the section of the workers: a chart of their times, and a table of what is known of
// each.
#ifndef ANALYSIS_OUTPUT_HTML_WORKERS_H_
#define ANALYSIS_OUTPUT_HTML_WORKERS_H_

#include <cstddef>
#include <string>

#include "analysis/report/report.h"

namespace jobscope::analysis {

inline constexpr size_t kMaxWorkerBars = 64;  // workers in the chart; the table has all

// The table has no column for GPUs, a class or causes of losses if no worker has any.
std::string WorkersSection(const Report& report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_OUTPUT_HTML_WORKERS_H_
