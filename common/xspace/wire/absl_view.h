// SPDX-License-Identifier: Apache-2.0
//
// Converts between string_views: Debian's Abseil has a type of its own, to which std::string_view
// does not convert; in current releases the two are one type. Compiles with both.
#ifndef COMMON_XSPACE_WIRE_ABSL_VIEW_H_
#define COMMON_XSPACE_WIRE_ABSL_VIEW_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace jobscope::xspace {

inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_WIRE_ABSL_VIEW_H_
