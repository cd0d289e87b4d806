// SPDX-License-Identifier: Apache-2.0
//
// What the services know about training steps, without knowing the recorder.
#ifndef SERVER_SERVICES_STEP_SOURCE_H_
#define SERVER_SERVICES_STEP_SOURCE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace jobscope {

struct StepTiming {
  int64_t number = 0;
  absl::Duration length;  // of a step that is over; how long it has run so far, of one that is not
  absl::Duration ended;   // how long ago it ended; zero while it runs
};

struct StepHistory {
  uint64_t count = 0;                 // begun since the process started
  uint64_t last_fall = 0;             // the newest of these whose number was not above its
                                      // predecessor's; 0: none
  std::optional<StepTiming> current;  // the one that runs now
  std::vector<StepTiming> recent;     // that are over, oldest first; at most 256
  std::string inferred_from;          // empty: the program marks them, or there are none
};

// Reads the newest steps. Thread-safe, takes microseconds, never blocks a thread that records.
using StepSource = std::function<StepHistory()>;

}  // namespace jobscope

#endif  // SERVER_SERVICES_STEP_SOURCE_H_
