// SPDX-License-Identifier: Apache-2.0
#ifndef COMMON_FILES_BYTE_SINK_H_
#define COMMON_FILES_BYTE_SINK_H_

#include <string_view>

#include "absl/status/status.h"

namespace jobscope::xspace {

// Receives the bytes of an XSpace, in order: a file, or memory.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  // Takes `bytes`. Stable bytes lie in the items' own memory and may be kept by reference while
  // that lives; others must be copied before the call returns.
  virtual absl::Status Write(std::string_view bytes, bool stable) = 0;
};

}  // namespace jobscope::xspace

#endif  // COMMON_FILES_BYTE_SINK_H_
