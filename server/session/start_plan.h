// SPDX-License-Identifier: Apache-2.0
//
// When a session records, in ticks.
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
  bool keep_zero = false;  // the zero is shared with other workers: it moves for nothing
  std::optional<uint64_t> commanded_ticks;  // the start instant, also if it is past
  uint64_t start_ticks = 0;                 // recording begins; the duration counts from here
  uint64_t zero_ticks = 0;                  // of the trace's times
  uint64_t begin_ticks = 0;                 // of the window: earlier than the start by the lookback
  // Of the window's end; with a commanded start also of the wait for a first step. UINT64_MAX:
  // none, or, by steps, not known before the window opens.
  uint64_t deadline_ticks = UINT64_MAX;
  uint64_t late_ns = 0;  // the start is this much later than commanded

  // What lies before the instant, in the window.
  uint64_t lookback_ticks() const;
};

// At options.start_unix_ns, or now. That instant is the zero, the same for all workers of a run,
// also when this worker is a little late for it; one that is long past is not.
StartPlan PlanStart(const SessionOptions& options, const TickMap& map, uint64_t now_ticks);

// At the commanded instant on MONOTONIC, or at `ready_ticks` if that is later: now, or, where
// everything is recorded already, since when. The zero is the commanded one.
StartPlan PlanStart(const StartCommand& command, const TickMap& map, uint64_t ready_ticks);

// Moves the window's begin back by `lookback`, but no further than to `oldest_ticks`, nor, where
// the zero is to stay, before that; elsewhere the zero moves along.
void AddLookback(absl::Duration lookback, uint64_t oldest_ticks, const TickMap& map,
                 StartPlan* plan);

// The window of steps opened at these ticks: recording begins. Without a commanded zero it is the
// zero: counted from the arming, the first event could lie hours into the timeline.
void OpenStepWindow(uint64_t open_ticks, const TickMap& map, StartPlan* plan);

// Ticks in a length of time; UINT64_MAX: beyond all bounds.
uint64_t TicksIn(absl::Duration duration, const TickMap& map);

}  // namespace jobscope

#endif  // SERVER_SESSION_START_PLAN_H_
