// SPDX-License-Identifier: Apache-2.0
//
// Writes findings as sentences.
#ifndef ANALYSIS_VERDICT_VERDICT_TEXT_H_
#define ANALYSIS_VERDICT_VERDICT_TEXT_H_

#include "analysis/report/report.h"

namespace jobscope::analysis {

// Writes text, why and advice of the verdict and of all findings, and `sure`.
void WriteSentences(Report* report);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_VERDICT_TEXT_H_
