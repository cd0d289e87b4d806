// SPDX-License-Identifier: Apache-2.0
//
// Computes when a session records: start, zero and window, in ticks.
#ifndef SERVER_SESSION_START_PLAN_H_
#define SERVER_SESSION_START_PLAN_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "collectors/collector.h"
#include "common/clock/clock.h"
#include "server/session/session_options.h"

namespace jobscope {

struct StartPlan {
  absl::Duration duration;
  std::optional<StepRange> steps;
  bool keep_zero = false;  // the zero is shared with other workers and must not move
  absl::Duration max_lookback = absl::InfiniteDuration();  // before start_ticks
  std::optional<uint64_t> commanded_ticks;                 // the start instant, also if it is past
  uint64_t start_ticks = 0;  // recording begins; the duration counts from here
  uint64_t zero_ticks = 0;   // of the trace's times
  uint64_t begin_ticks = 0;  // of the window: earlier than the start by the lookback
  // End of the window; with a commanded start also the end of the wait for a first step.
  // UINT64_MAX: none, or, by steps, unknown until the window opens.
  uint64_t deadline_ticks = UINT64_MAX;
  uint64_t late_ns = 0;  // delay of the start after the commanded instant

  // The part of the window before the instant.
  uint64_t lookback_ticks() const;
};

// Plans a start at options.start_unix_ns, or now. That instant is the zero, the same for all
// workers of a run, even if this worker is a little late for it. An instant long past is not used
// as zero.
StartPlan PlanStart(const SessionOptions& options, const TickMap& map, uint64_t now_ticks);

// Plans a start at the commanded instant on MONOTONIC, or at `ready_ticks` if that is later: now,
// or the time since which everything is recorded. The zero is the commanded one.
StartPlan PlanStart(const StartCommand& command, const TickMap& map, uint64_t ready_ticks);

// Moves the window's begin back by `lookback`, but not before `oldest_ticks`, not by more than
// `max_lookback` before the start, and not before the zero if `keep_zero` is set; otherwise the
// zero moves along.
void AddLookback(absl::Duration lookback, uint64_t oldest_ticks, const TickMap& map,
                 StartPlan* plan);

// The step window opened at these ticks: recording begins. Without a commanded zero this becomes
// the zero: counted from the arming, the first event could lie hours into the timeline.
void OpenStepWindow(uint64_t open_ticks, const TickMap& map, StartPlan* plan);

// Converts a duration to ticks. UINT64_MAX: unbounded.
uint64_t TicksIn(absl::Duration duration, const TickMap& map);

}  // namespace jobscope

#endif  // SERVER_SESSION_START_PLAN_H_
