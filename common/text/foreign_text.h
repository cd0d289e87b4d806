// SPDX-License-Identifier: Apache-2.0
//
// Texts that come from somebody else's process, made fit for a terminal or a message.
#ifndef COMMON_TEXT_FOREIGN_TEXT_H_
#define COMMON_TEXT_FOREIGN_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace jobscope {

// `text` as one line of UTF-8 that moves no cursor and colours nothing: control characters (also
// those of two bytes, which some terminals obey), line and paragraph separators and marks that turn
// the direction of writing become blanks, bytes that are no UTF-8 question marks. What is longer
// than `max_bytes` is cut between characters, with "..." behind it.
std::string OneLine(std::string_view text, size_t max_bytes);

// `text` cut likewise, and otherwise as it is.
std::string CutText(std::string_view text, size_t max_bytes);

// `text` as printable ASCII, for messages and for fields that must be UTF-8: other bytes become
// question marks; cut after `max_bytes` (by default what suits a name in a message), with "..."
// behind it.
std::string Printable(absl::string_view text, size_t max_bytes = 100);

}  // namespace jobscope

#endif  // COMMON_TEXT_FOREIGN_TEXT_H_
