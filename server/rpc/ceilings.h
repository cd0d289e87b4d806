// SPDX-License-Identifier: Apache-2.0
//
// Limits what clients may request, as set by the operator of a worker.
#ifndef SERVER_RPC_CEILINGS_H_
#define SERVER_RPC_CEILINGS_H_

#include <cstdint>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/options/recording_options.h"
#include "server/limits.h"

namespace jobscope {

// The highest level of each kind that clients may request.
struct LevelCeilings {
  int host = 3;
  int device = 1;
  // Level 2 traces each Python call, which about doubles the time of pure Python code before Python
  // 3.12: the operator must allow it.
  int python = 1;
};

// Ceilings; the defaults apply if the operator sets none.
struct Ceilings {
  uint64_t duration_ms = limits::kMaxDurationMs;
  uint64_t trace_bytes = 0;          // of events in one trace; 0: only the store limits them
  uint32_t captures_per_minute = 0;  // 0: no ceiling
  LevelCeilings levels;
};

// Parses "3/1/2": host, device and Python. Empty: keeps `*levels`. Returns INVALID_ARGUMENT, which
// does not name the setting of the text.
absl::Status ParseLevels(absl::string_view text, LevelCeilings* levels);

// Returns PERMISSION_DENIED: `field` = `value` is above a ceiling. Names the ceiling and how the
// operator can raise it: `variable` (`option`).
absl::Status OverCeiling(absl::string_view field, absl::string_view value,
                         absl::string_view ceiling, absl::string_view variable,
                         absl::string_view option);

// Returns PERMISSION_DENIED, which names the first level above its ceiling. `prefix` precedes the
// fields' names: "arm.".
absl::Status CheckLevelCeilings(absl::string_view prefix, const RecordingOptions& recording,
                                const Ceilings& ceilings);

// Counts captures against Ceilings::captures_per_minute. Thread-safe.
class CaptureRate {
 public:
  // 0: no ceiling.
  explicit CaptureRate(uint32_t per_minute) : per_minute_(per_minute) {}

  // Counts one capture that begins now: at most `per_minute` at once and as many per minute.
  // Returns RESOURCE_EXHAUSTED, with the time of the next possible one, and then counts nothing.
  absl::Status Take(absl::Time now);
  // Takes back the count of a capture that was refused before it began.
  void GiveBack();

 private:
  const uint32_t per_minute_;
  absl::Mutex mutex_;
  double left_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time filled_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace jobscope

#endif  // SERVER_RPC_CEILINGS_H_
