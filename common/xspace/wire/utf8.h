// SPDX-License-Identifier: Apache-2.0
//
// Validates UTF-8: protobuf strings must be UTF-8, and one bad byte in one name makes the whole
// trace unreadable for a protobuf parser.
#ifndef COMMON_XSPACE_WIRE_UTF8_H_
#define COMMON_XSPACE_WIRE_UTF8_H_

#include <string>
#include <string_view>

namespace jobscope::xspace {

// Returns whether `text` is well-formed UTF-8 (no overlong forms, no surrogates, nothing above
// U+10FFFF).
bool IsUtf8(std::string_view text);

// Returns `text` itself if it is UTF-8; otherwise a copy in `*scratch` with each offending byte
// replaced by '?'.
std::string_view ToUtf8(std::string_view text, std::string* scratch);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_WIRE_UTF8_H_
