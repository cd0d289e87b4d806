// SPDX-License-Identifier: Apache-2.0
//
// The contract between a session and a source of events.
#ifndef COLLECTORS_COLLECTOR_H_
#define COLLECTORS_COLLECTOR_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/options/device_tracer.h"
#include "common/options/framework_choice.h"
#include "common/xspace/segment/item_sink.h"
#include "common/xspace/segment/names.h"

namespace jobscope {

// Levels of one session, already validated.
struct CollectorLevels {
  int host = 2;    // 0 off; 1 user and critical; 2 and notable runtime work; 3 and verbose
  int device = 1;  // 0 off
  int python = 0;  // 0 off
};

// Whole steps to record: from the begin of the first step whose number is >= first to the end of
// the first whose number is >= last; but as many, later ones, if step `first` has begun already.
struct StepRange {
  int64_t first = 0;
  int64_t last = 0;
  // Not their numbers: how many have begun in this process, the first being 1. For programs whose
  // numbers do not rise.
  bool by_ordinal = false;
};

// What a collector tells the session between its verbs. Thread-safe, never blocks.
class SessionEvents {
 public:
  virtual ~SessionEvents() = default;
  // The step window of the session opened or closed at these ticks. Only for sessions with a
  // StepRange.
  virtual void OnStepWindowOpened(uint64_t ticks) = 0;
  virtual void OnStepWindowClosed(uint64_t ticks) = 0;
  // Ticks do not run any more as the session's map says; until `last_good_ticks` they did. What
  // comes later has no time: the session ends there.
  virtual void OnClockJumped(uint64_t last_good_ticks) = 0;
};

struct ArmRequest {
  CollectorLevels levels;
  FrameworkChoice frameworks;  // collectors of frameworks that it does not take are off
  absl::Duration lookback;     // wanted; zero: none
  // A start instant is about to be commanded: a collector that can records from Arm on, for at most
  // this long, so that a Start that is posted late loses nothing. Zero: it records from Start on.
  absl::Duration ahead;
  bool record_shapes = false;  // of operators' inputs; a collector of operators that can't says so
  DeviceTracer device_tracer = DeviceTracer::kAuto;
  uint64_t store_bytes = uint64_t{256} << 20;  // what the session may keep in memory
  xspace::ItemSink* sink =
      nullptr;                     // outlives the session's verbs, also those of a wedged collector
  xspace::Names* names = nullptr;  // likewise
  SessionEvents* events = nullptr;  // likewise
};

// The window of a session. An event belongs to it if it intersects [start_ticks, end]; the end is
// told by Stop.
struct StartRequest {
  // The window's begin, at or after the map's zero: a worker that is late for the commanded instant
  // begins late, and its times still count from that instant. Start comes up to a second before it,
  // or after it: without a lookback, a collector that began to record after it moves the begin to
  // when it did, so that nothing looks whole whose inside was not recorded.
  uint64_t start_ticks = 0;
  // The planned end, where one is known: nothing that begins after it is in the trace, however late
  // Stop comes. Stop may tell an earlier one.
  uint64_t end_ticks = UINT64_MAX;
  TickMap map;                     // zero set
  std::optional<StepRange> steps;  // then recording begins and ends with these
  // With steps: the map's zero is commanded, and stays. Otherwise it becomes the window's opening.
  bool keep_zero = false;
};

struct CollectorReport {
  std::string state = "on";  // "on", "off", "degraded", "failed"; the session itself says "wedged"
  std::string reason;        // why it is not "on"
  uint64_t attempted = 0;    // attempted = events + lost + outside
  uint64_t events = 0;       // in the trace
  uint64_t outside = 0;      // attempted, but not in the window
  std::map<std::string, uint64_t> lost_by_cause;
  std::optional<uint64_t>
      steps;  // whole steps in the trace; absent if this collector knows of no step source
  struct Thread {
    int64_t tid = 0;
    std::string name;
    uint64_t attempted = 0, in_trace = 0, lost = 0, outside = 0;
  };
  // Of a window of steps that has opened: its first and last, by number or as it was asked for.
  std::optional<int64_t> first_step, last_step;
  bool steps_by_ordinal = false;
  // What its steps were inferred from, for people; empty: the program marks them.
  std::string steps_inferred_from;
  std::vector<Thread> threads;  // those that lost something first; at most 1,000
  std::vector<std::string> warnings;
};

// A source of events. A collector lives as long as the process; sessions follow each other. The
// session calls the verbs of one session in the order below, each at most once, all on one thread
// that belongs to this collector; it waits for each with a deadline and goes on without a collector
// that misses it. Such a collector is wedged: it gets no further verb until the one it hangs in has
// returned, and takes part in no session until then.
//
// What costs time belongs into Arm. An error status of Arm or Start takes the collector out of this
// session, with its message as the reason; the other collectors are not affected.
class Collector {
 public:
  virtual ~Collector() = default;

  virtual std::string_view name() const = 0;

  // State and reason while no session runs, for Describe. Called from any thread; must not block.
  virtual CollectorReport Describe() const = 0;

  // Why this collector takes no part in a session; empty: it does, or finds out in Arm. Asked
  // before Arm: one that is off gets no verb and no thread. Called from any thread; must not block.
  virtual std::string WhyOff(const ArmRequest& /*request*/) const { return {}; }

  // The earliest ticks that Arm's lookback can reach, known after Arm; the session grants no more.
  // After Start: what it really reached, which is later where rings went on turning in between.
  // Default: none.
  virtual uint64_t OldestTicks() const { return UINT64_MAX; }

  // Prepares a session. Deadline 5 s.
  virtual absl::Status Arm(const ArmRequest& request) = 0;
  // A collector that watches the step trigger gets Start at once in a session with a StepRange,
  // arms the trigger, and at the opening, unless `keep_zero`, rebases its map (TickMap::WithZero)
  // to the opening ticks, which are that trace's zero; it encodes nothing before. The others get
  // Start when the window has opened, with that zero.
  virtual bool WatchesSteps() const { return false; }

  // After Start: since when everything asked for is recorded, or, with steps, watched for. After
  // Arm of an ArmRequest with `ahead`: likewise, while it records; Drain is then called before
  // Start too. 0: not known. Any thread.
  virtual uint64_t RecordingSince() const { return 0; }

  // While recording: what is lost already, as far as that is known without work. Any thread.
  virtual uint64_t LostSoFar() const { return 0; }

  // Begins recording. Deadline 1 s.
  virtual absl::Status Start(const StartRequest& request) = 0;
  // Between Start and Stop: moves what has been recorded into the sink. Returns when it wants to be
  // called next; InfiniteDuration: not at all. Must return within 100 ms.
  virtual absl::Duration Drain() { return absl::InfiniteDuration(); }
  // Comes without Start when a session ends before its start.
  // Ends recording: nothing that begins after `end_ticks` is in the trace. The last drain happens
  // here. Deadline 2 s.
  virtual absl::Status Stop(uint64_t end_ticks) = 0;
  // What was recorded and what was lost. Called after Stop, and after a failed verb. Deadline 1 s.
  virtual CollectorReport Report() = 0;
};

}  // namespace jobscope

#endif  // COLLECTORS_COLLECTOR_H_
