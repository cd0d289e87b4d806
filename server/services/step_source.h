// SPDX-License-Identifier: Apache-2.0
//
// Gives the services the state of the training steps; hides the recorder.
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
  absl::Duration length;  // of a completed step; of a running one, how long it has run so far
  absl::Duration ended;   // how long ago it ended; zero while it runs
};

struct StepHistory {
  uint64_t count = 0;  // begun since the process started
  // Of these, the newest whose number was not above its predecessor's; 0: none.
  uint64_t last_fall = 0;
  std::optional<StepTiming> current;  // the running step
  std::vector<StepTiming> recent;     // completed steps, oldest first; at most 256
  std::string inferred_from;          // empty: the program marks its steps, or there are none
};

struct StepBegin {
  int64_t number = 0;
  absl::Duration ago;
};

// Returns when the steps of `history` began, newest first. The time of a step is that from its
// begin to the next one's: a program may wait for its batch before it marks the step.
std::vector<StepBegin> StepBegins(const StepHistory& history);

// Reads the newest steps. Thread-safe. Takes microseconds. Never blocks a recording thread.
using StepSource = std::function<StepHistory()>;

}  // namespace jobscope

#endif  // SERVER_SERVICES_STEP_SOURCE_H_
