// SPDX-License-Identifier: Apache-2.0
//
// Abseil as Debian builds it has a string_view of its own, which std::string_view does not convert
// to; in current releases the two are one type. This compiles with both.
#ifndef COMMON_XSPACE_WIRE_ABSL_VIEW_H_
#define COMMON_XSPACE_WIRE_ABSL_VIEW_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace jobscope::xspace {

inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_WIRE_ABSL_VIEW_H_
