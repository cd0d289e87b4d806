// SPDX-License-Identifier: Apache-2.0
//
// Computes the report of a run from its digests.
#ifndef ANALYSIS_VERDICT_REDUCE_H_
#define ANALYSIS_VERDICT_REDUCE_H_

#include "analysis/digest/digests.h"
#include "analysis/verdict/report.h"

namespace jobscope::analysis {

// Sets the figures of a row from its view.
void FillRow(WorkerRow* row);

// Computes the report. `digests` must outlive it. A malformed digest counts as missing.
Report Reduce(const Digests& digests);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_REDUCE_H_
