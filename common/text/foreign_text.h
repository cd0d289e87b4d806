// SPDX-License-Identifier: Apache-2.0
//
// Makes texts from other processes safe for a terminal or a message.
#ifndef COMMON_TEXT_FOREIGN_TEXT_H_
#define COMMON_TEXT_FOREIGN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace jobscope {

// Returns `text` as one line of UTF-8 that cannot control a terminal: control characters (including
// two-byte ones, which some terminals obey), line and paragraph separators and directional marks
// become blanks, invalid UTF-8 becomes question marks. Text longer than `max_bytes` is cut between
// characters and ends in "...".
std::string OneLine(std::string_view text, size_t max_bytes);

// Likewise for a table: text with more than `max_columns` characters (5 or more) keeps its begin
// and its end, because names of kernels differ at both.
std::string OneLineInColumns(std::string_view text, size_t max_columns);

// Cuts `text` likewise, without other changes.
std::string CutText(std::string_view text, size_t max_bytes);

// Returns JSON that means the same as `json` and cannot control a terminal. Writers of JSON escape
// control characters up to 0x1f; this escapes the others that OneLine replaces ("\u009b").
std::string EscapeControls(std::string_view json);

// Returns `text` as printable ASCII, for messages and for fields that must be UTF-8: other bytes
// become question marks. Text longer than `max_bytes` (default: enough for a name in a message) is
// cut and ends in "...".
std::string Printable(absl::string_view text, size_t max_bytes = 100);

}  // namespace jobscope

#endif  // COMMON_TEXT_FOREIGN_TEXT_H_
