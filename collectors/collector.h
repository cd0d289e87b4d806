// SPDX-License-Identifier: Apache-2.0
//
// Defines the contract between a session and a source of events.
#ifndef COLLECTORS_COLLECTOR_H_
#define COLLECTORS_COLLECTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/options/recording_options.h"
#include "common/run/session_state.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/loss_cause.h"
#include "common/xspace/segment/names.h"

namespace jobscope {

// Whole training steps to record: from the begin of the first step whose number is >= first to the
// end of the first whose number is >= last. If step `first` has begun already, the same number of
// later steps.
struct StepRange {
  int64_t first = 0;
  int64_t last = 0;
  // The numbers are ordinals: how many steps have begun in this process, starting with 1. For
  // programs whose step numbers do not increase.
  bool by_ordinal = false;
};

// Receives events from a collector between the session's calls to it. Thread-safe, never blocks.
class SessionEvents {
 public:
  virtual ~SessionEvents() = default;
  // The step window of the session opened or closed at these ticks. Only for sessions with a
  // StepRange.
  virtual void OnStepWindowOpened(uint64_t ticks) = 0;
  virtual void OnStepWindowClosed(uint64_t ticks) = 0;
  // Ticks no longer match the session's map; they did until `last_good_ticks`. Later events have no
  // valid time, so the session ends there.
  virtual void OnClockJumped(uint64_t last_good_ticks) = 0;
};

struct ArmRequest {
  RecordingOptions recording;
  absl::Duration lookback;  // requested; zero: none
  // A start instant is about to be commanded: a collector that supports this records from Arm on,
  // for at most this long, so that a Start called late loses nothing. Zero: it records from Start
  // on.
  absl::Duration ahead;
  uint64_t store_bytes = uint64_t{256} << 20;  // the session's memory cap
  // Outlives all calls of the session, also those of a wedged collector.
  xspace::ItemSink* sink = nullptr;
  xspace::Names* names = nullptr;   // likewise
  SessionEvents* events = nullptr;  // likewise
};

// The window of a session. An event belongs to it if it intersects [start_ticks, end]; Stop gives
// the end.
struct StartRequest {
  // Begin of the window, at or after the map's zero: a worker that is late for the commanded
  // instant begins late, and its times still count from that instant. Start is called up to a
  // second before it, or after it. Without a lookback, a collector that began to record after it
  // moves the begin to that time, so that a part that was not recorded does not look empty.
  uint64_t start_ticks = 0;
  // The planned end, if known: no event that begins after it is in the trace, however late Stop is
  // called. Stop may give an earlier one.
  uint64_t end_ticks = UINT64_MAX;
  TickMap map;                     // with its zero set
  std::optional<StepRange> steps;  // recording begins and ends with these
  // With steps: the map's zero is commanded and stays. Otherwise the opening of the window becomes
  // the zero.
  bool keep_zero = false;
};

struct CollectorReport {
  CollectorState state = CollectorState::kOn;
  std::string reason;  // why it is not on
  // It is off because the process, or its machine, has nothing to record, so it cannot be turned
  // on.
  bool absent = false;
  uint64_t attempted = 0;  // attempted = events + lost + outside
  uint64_t events = 0;     // in the trace
  uint64_t outside = 0;    // attempted, but outside the window
  LossesByCause lost_by_cause;
  bool account_unknown = false;  // memory ran out: the counts above lack events
  std::optional<uint64_t>
      steps;  // whole steps in the trace; absent if this collector knows no step source
  struct Thread {
    int64_t tid = 0;
    std::string name;
    uint64_t attempted = 0, in_trace = 0, lost = 0, outside = 0;
  };
  // First and last step of an opened step window, by number or ordinal, as requested.
  std::optional<int64_t> first_step, last_step;
  bool steps_by_ordinal = false;
  // What the steps were inferred from, for people; empty: the program marks them.
  std::string steps_inferred_from;
  std::vector<Thread> threads;  // threads with losses first; at most 1,000
  std::vector<std::string> warnings;
};

// Provides events to sessions. A collector lives as long as the process; sessions follow each
// other. The session calls the functions of one session in the order below, each at most once, all
// on one thread that belongs to this collector. It waits for each with a deadline and continues
// without a collector that misses it. Such a collector is wedged: it gets no further call until the
// hanging one has returned, and takes part in no session until then.
//
// Slow work belongs into Arm. An error status of Arm or Start removes the collector from this
// session, with its message as the reason; other collectors are not affected.
class Collector {
 public:
  virtual ~Collector() = default;

  virtual std::string_view name() const = 0;

  // Returns state and reason while no session runs, for Describe. Called from any thread; must not
  // block.
  virtual CollectorReport Describe() const = 0;

  // Returns why this collector takes no part in a session; empty: it does, or finds out in Arm.
  // Called before Arm: a collector that is off gets no calls and no thread. Called from any thread;
  // must not block.
  virtual std::string WhyOff(const ArmRequest& /*request*/) const { return {}; }

  // Returns the earliest ticks that Arm's lookback can reach, known after Arm; the session grants
  // no more. After Start: what it really reached, which is later if rings overwrote records in
  // between. Default: none.
  virtual uint64_t OldestTicks() const { return UINT64_MAX; }

  // Prepares a session. Deadline 5 s.
  virtual absl::Status Arm(const ArmRequest& request) = 0;
  // Returns whether this collector watches the step trigger. If so, in a session with a StepRange
  // it gets Start at once and arms the trigger. At the opening, unless `keep_zero`, it rebases its
  // map (TickMap::WithZero) to the opening ticks, which become the trace's zero; it encodes nothing
  // before. Other collectors get Start when the window has opened, with that zero.
  virtual bool WatchesSteps() const { return false; }

  // After Start: returns since when everything requested is recorded or, with steps, watched for.
  // After Arm of an ArmRequest with `ahead`: likewise, while it records; Drain is then also called
  // before Start. 0: unknown. Any thread.
  virtual uint64_t RecordingSince() const { return 0; }

  // Returns the losses so far while recording, as far as they are known without work. Any thread.
  virtual uint64_t LostSoFar() const { return 0; }

  // Begins recording. Deadline 1 s.
  virtual absl::Status Start(const StartRequest& request) = 0;
  // Moves what has been recorded into the sink, between Start and Stop. Returns the time until the
  // next call; InfiniteDuration: no further call. Must return within 100 ms.
  virtual absl::Duration Drain() { return absl::InfiniteDuration(); }
  // Ends recording and drains a last time: no event that begins after `end_ticks` is in the trace.
  // Called without Start if a session ends before its start. Deadline 2 s.
  virtual absl::Status Stop(uint64_t end_ticks) = 0;
  // Returns what was recorded and lost, and releases what the session still holds. Called after
  // Stop, and after a failed call; a wedged collector's Report is read by nobody. Deadline 1 s.
  virtual CollectorReport Report() = 0;
};

}  // namespace jobscope

#endif  // COLLECTORS_COLLECTOR_H_
