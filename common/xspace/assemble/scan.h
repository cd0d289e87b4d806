// SPDX-License-Identifier: Apache-2.0
//
// Reads what a client needs from a finished XSpace of any origin, without building it in memory.
#ifndef COMMON_XSPACE_ASSEMBLE_SCAN_H_
#define COMMON_XSPACE_ASSEMBLE_SCAN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace jobscope::xspace {

struct XSpaceScan {
  uint64_t planes = 0;
  uint64_t lines = 0;
  uint64_t events = 0;  // of all lines
  // At most kMaxScanTexts of each, each cut at kMaxScanTextBytes.
  std::vector<std::string> plane_names;
  std::vector<std::string> hostnames;
  std::vector<std::string> errors;
  std::vector<std::string> warnings;
  // Read from the plane `Task Environment`.
  std::optional<std::string>
      summary;  // bytes of jobscope_summary: a jobscope.v1.Summary, if the file is ours; one of
                // more than kMaxScanSummaryBytes counts as none
  std::optional<uint64_t> profile_start_time_ns;  // epoch
  std::optional<uint64_t> profile_stop_time_ns;   // epoch
};

inline constexpr size_t kMaxScanTexts = 1000;
inline constexpr size_t kMaxScanTextBytes = 4096;
// Bounds the summary, because its parser builds objects of several times its size. Real ones take a
// few KiB; with losses of thousands of threads, some hundred.
inline constexpr size_t kMaxScanSummaryBytes = size_t{4} << 20;

// Scans `bytes` (up to 4 GiB) down to the events, without reading these. Returns an error if the
// bytes are not an XSpace. Memory: the result. Thread-safe.
absl::StatusOr<XSpaceScan> ScanXSpace(std::string_view bytes);

}  // namespace jobscope::xspace

#endif  // COMMON_XSPACE_ASSEMBLE_SCAN_H_
