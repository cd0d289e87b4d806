// SPDX-License-Identifier: Apache-2.0
//
// Prepares texts of foreign traces for digests and for people.
#ifndef ANALYSIS_TEXT_TEXT_H_
#define ANALYSIS_TEXT_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace jobscope::analysis {

// Returns the first `max_bytes` of `text` as UTF-8: invalid bytes become '?', no character is cut.
std::string CutText(std::string_view text, size_t max_bytes);

// Returns one line for a terminal: control characters (line breaks, escape sequences) become '?'.
// Text longer than `max_columns` is cut in its middle.
std::string TerminalText(std::string_view text, size_t max_columns);

}  // namespace jobscope::analysis

#endif  // ANALYSIS_TEXT_TEXT_H_
