// SPDX-License-Identifier: Apache-2.0
//
// What a session is asked to do, after validation. Both services and programmatic mode make one of
// these.
#ifndef SERVER_SESSION_OPTIONS_H_
#define SERVER_SESSION_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "collectors/collector.h"

namespace jobscope {

struct SessionOptions {
  std::string session_id;   // key for Stop and Terminate; may be empty
  std::string peer;         // who asked: for busy texts, audit
  absl::Duration duration;  // zero with a lookback: dump at once; Infinite: until stopped
  // Absent, or in the past: at once. If it is at most 5 s in the past, it is still the trace's
  // zero.
  std::optional<int64_t> start_unix_ns;
  absl::Duration lookback;
  std::optional<StepRange> steps;  // ends at `duration` at the latest, if that comes first
  CollectorLevels levels;
  uint64_t store_bytes = 256ull << 20;
  std::vector<std::string>
      ignored;  // options that were sent and are not known: named in the summary
};

}  // namespace jobscope

#endif  // SERVER_SESSION_OPTIONS_H_
