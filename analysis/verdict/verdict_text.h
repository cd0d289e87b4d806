// SPDX-License-Identifier: Apache-2.0
//
// Writes findings as sentences.
#ifndef ANALYSIS_VERDICT_VERDICT_TEXT_H_
#define ANALYSIS_VERDICT_VERDICT_TEXT_H_

#include <string>

#include "analysis/verdict/report.h"

namespace jobscope::analysis {

// Returns "rank 5 (node2)" or "127.0.0.1_6009"; "rank 5 (node2, w7)" if another worker has the same
// rank.
std::string TitleOf(const WorkerRow& worker);

// Writes text, why and advice of the verdict and of all findings, and `sure`.
void WriteSentences(Report* report);

// "24.6 ms", "0.31 ms", "1.2 s".
std::string Milliseconds(double ms);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_VERDICT_VERDICT_TEXT_H_
