// SPDX-License-Identifier: Apache-2.0
//
// Computes the report of a run from its digests.
#ifndef ANALYSIS_VERDICT_REDUCE_H_
#define ANALYSIS_VERDICT_REDUCE_H_

#include "analysis/digest/digests.h"
#include "analysis/report/report.h"

namespace jobscope::analysis {

// Computes the report. `digests` must outlive it. A malformed digest counts as missing.
Report Reduce(const Digests& digests);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_REDUCE_H_
