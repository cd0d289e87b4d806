// SPDX-License-Identifier: Apache-2.0
//
// Defines the options of a capture of many workers, and the time limit of each part.
#ifndef CLIENT_FAN_OUT_FAN_OUT_OPTIONS_H_
#define CLIENT_FAN_OUT_FAN_OUT_OPTIONS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/fan_out/step_plan.h"
#include "common/options/recording_options.h"
#include "common/run/manifest.h"

namespace jobscope {

// Time limits. docs/design/client.md gives the reasons.
struct FanOutTimes {
  absl::Duration connect = absl::Seconds(5);  // one attempt: connection and Describe
  absl::Duration arm = absl::Seconds(20);     // one attempt: until the worker is armed
  absl::Duration sync = absl::Seconds(2);     // the pings that measure a clock
  absl::Duration transfer =
      absl::Seconds(120);  // from the planned end to the last byte of a live worker
  absl::Duration first_backoff =
      absl::Milliseconds(500);  // doubles; plus up to a quarter at random
  absl::Duration max_backoff = absl::Seconds(4);
  // Once all workers have been contacted, the common start does not wait for a worker that needs
  // this much longer than the last one that became ready.
  absl::Duration gather = absl::Milliseconds(500);
  // An attempt that takes this much longer than usual gives its place among max_parallel to
  // another, and continues. So 256 parallel attempts try a thousand silent addresses per second.
  absl::Duration stall = absl::Milliseconds(250);
  // If the requested first step, or a delayed start, is farther ahead than this, the clocks are
  // measured later.
  absl::Duration near = absl::Seconds(2);
};

struct FanOutOptions {
  std::string session_id;
  std::string repository_root;
  // Absent: native if the worker speaks it. kNative: other workers are refused. kTensorflow: also
  // for workers that speak the native one.
  std::optional<Protocol> protocol;
  absl::Duration duration;  // zero, with a lookback: only what is already recorded
  absl::Duration delay;
  absl::Duration lookback;
  std::optional<StepsWanted> steps;  // replaces the duration for workers with steps
  absl::Duration max_duration = absl::InfiniteDuration();  // of a recording of steps
  RecordingOptions recording;
  int attempts = 3;
  // Limit for each of: connecting and arming, measuring clocks, and writing at one time; those that
  // stall do not count.
  size_t max_parallel = 256;
  std::optional<size_t> min_workers;  // with fewer armed workers nothing is recorded
  FanOutTimes times;
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_FAN_OUT_OPTIONS_H_
