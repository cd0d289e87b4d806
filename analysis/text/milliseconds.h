// SPDX-License-Identifier: Apache-2.0
#ifndef ANALYSIS_TEXT_MILLISECONDS_H_
#define ANALYSIS_TEXT_MILLISECONDS_H_

#include <string>

namespace jobscope::analysis {

// Returns a time for people, with three digits: "24.6 ms", "0.31 ms", "12.3 s".
std::string Milliseconds(double ms);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TEXT_MILLISECONDS_H_
