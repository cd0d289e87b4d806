// SPDX-License-Identifier: Apache-2.0
#include "analysis/text/milliseconds.h"

#include "absl/strings/str_format.h"

namespace jobscope::analysis {

std::string Milliseconds(double ms) {
  if (ms >= 10000) return absl::StrFormat("%.1f s", ms / 1000);
  if (ms >= 100) return absl::StrFormat("%.0f ms", ms);
  if (ms >= 10) return absl::StrFormat("%.1f ms", ms);
  return absl::StrFormat("%.2f ms", ms);
}

}  // namespace jobscope::analysis
