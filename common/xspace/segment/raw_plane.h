// SPDX-License-Identifier: Apache-2.0
//
// Describes planes made by a framework that are copied into a trace unchanged.
#ifndef COMMON_XSPACE_SEGMENT_RAW_PLANE_H_
#define COMMON_XSPACE_SEGMENT_RAW_PLANE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace jobscope::xspace {

struct RawPlaneInfo {
  std::string name;
  uint64_t events = 0;  // XEvents of all its lines
};

// Checks the bytes of an XPlane whole, down to each stat and each string: one bad byte in there
// would make the trace that it is copied into unreadable.
absl::StatusOr<RawPlaneInfo> CheckRawPlane(std::string_view bytes);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_SEGMENT_RAW_PLANE_H_
