// SPDX-License-Identifier: Apache-2.0
//
// Keeps the stage of each of a run's workers. Counts are maintained, not computed: a letter costs
// the same with ten workers and with ten thousand.
#ifndef CLIENT_FAN_OUT_ROSTER_H_
#define CLIENT_FAN_OUT_ROSTER_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "client/clock/clock_sync.h"
#include "client/worker/worker_client.h"
#include "client/worker/worker_outcome.h"
#include "common/net/endpoint.h"
#include "common/run/manifest.h"

namespace jobscope {

// In the order of a run, but for kBackingOff.
enum class Stage {
  kQueued,
  kConnecting,
  kArming,
  kBackingOff,
  kArmed,
  kSyncing,
  kSynced,  // its clock is known, or cannot be
  kRecording,
  kWriting,
  kDone,
};
inline constexpr size_t kStages = 10;

// Returns whether the worker has not begun to record.
constexpr bool IsUnstarted(Stage stage) { return stage < Stage::kRecording; }
// Returns whether the worker is armed and waits for the start.
constexpr bool IsWaiting(Stage stage) { return stage >= Stage::kArmed && IsUnstarted(stage); }

struct WorkerResult {
  WorkerOutcome outcome;
  ManifestWorker account;  // without the fields of `outcome`
};

// One worker. Only the roster changes `stage`, `attempt`, `wake`, `stalls` and `end`. Times are
// those of SteadyNow (common/clock/monotonic.h).
struct Slot {
  Endpoint endpoint;
  std::string stem;
  Stage stage = Stage::kQueued;
  int attempt = 0;                             // letters of earlier attempts are void
  int rearms = 0;                              // attempts after a success, which do not count
  absl::Time wake = absl::InfiniteFuture();    // next attempt, in kBackingOff
  absl::Time stalls = absl::InfiniteFuture();  // in kConnecting, kArming, kSyncing: see attempts()
  absl::Time end = absl::InfiniteFuture();     // planned, in kRecording
  std::shared_ptr<WorkerClient> worker;
  bool streams = false;    // `worker` speaks the native protocol
  bool described = false;  // the worker is one of ours
  absl::Time first_asked;  // when the first attempt began
  absl::Time asked;        // when the running attempt began, or the last one
  std::string clock_id;
  std::optional<int64_t> pid;  // if it denotes the same process on this machine
  absl::Duration max_duration = absl::InfiniteDuration();  // the worker's own limit
  absl::Duration max_lookback = absl::InfiniteDuration();  // likewise
  std::optional<ClockEstimate> arm_clock;                  // measured by arming
  std::optional<ClockEstimate> clock;
  uint64_t lookback_ns = 0;
  std::optional<v1::StepState> steps;
  uint64_t steps_seen_ns = 0;
  std::optional<v1::StepWindow> window;       // the steps that were sent to it
  absl::Time start = absl::InfiniteFuture();  // planned
  bool stopped = false;                       // by us
  v1::Progress progress;                      // the newest
  std::optional<v1::Started> started;
  WorkerResult result;
};

// An ordered set of times, one per worker.
class Schedule {
 public:
  void Add(absl::Time time, size_t index) { times_.emplace(time, index); }
  void Remove(absl::Time time, size_t index) { times_.erase({time, index}); }
  // Removes the times up to `now`.
  void Expire(absl::Time now) {
    while (!times_.empty() && times_.begin()->first <= now) times_.erase(times_.begin());
  }
  size_t size() const { return times_.size(); }
  std::optional<std::pair<absl::Time, size_t>> next() const {
    if (times_.empty()) return std::nullopt;
    return *times_.begin();
  }
  // Infinite if the set is empty.
  absl::Time first() const {
    return times_.empty() ? absl::InfiniteFuture() : times_.begin()->first;
  }
  absl::Time last() const { return times_.empty() ? absl::InfinitePast() : times_.rbegin()->first; }

 private:
  std::set<std::pair<absl::Time, size_t>> times_;
};

class Roster {
 public:
  Roster(std::vector<Endpoint> endpoints, std::vector<std::string> stems);

  size_t size() const { return slots_.size(); }
  Slot& operator[](size_t index) { return slots_[index]; }
  const Slot& operator[](size_t index) const { return slots_[index]; }

  // The only way to change a stage. Takes constant time, except for the sets of times.
  void Move(size_t index, Stage to);
  // Increments the attempt, clears what the last one reported, and moves to kConnecting.
  void BeginAttempt(size_t index, absl::Time stalls);
  // Moves to kSyncing.
  void BeginSync(size_t index, absl::Time stalls);
  void BackOff(size_t index, absl::Time until);
  // Moves to kRecording.
  void Record(size_t index, absl::Time start, absl::Time end);
  // Adds a warning to the worker's entry in the manifest.
  void Warn(size_t index, std::string text);
  // Changes the planned end of a worker that records.
  void SetEnd(size_t index, absl::Time end);

  size_t in(Stage stage) const { return counts_[static_cast<size_t>(stage)]; }
  // Counts what --max_parallel bounds: attempts (connecting or arming), and measurements of clocks,
  // that have not stalled by `now`, which never decreases. A stalled one costs a descriptor only;
  // if it kept its place, the workers behind it would wait.
  size_t attempts(absl::Time now);
  size_t syncs(absl::Time now);
  // When the next of either stalls.
  absl::Time next_stall() const { return std::min(attempts_.first(), syncs_.first()); }
  // Returns how many workers may still succeed at their first attempt.
  size_t first_attempts() const { return first_attempts_; }
  // Returns how many workers may still become armed.
  size_t may_come() const {
    return in(Stage::kQueued) + in(Stage::kConnecting) + in(Stage::kArming) +
           in(Stage::kBackingOff);
  }
  // Returns how many workers are armed and wait for the start.
  size_t waiting() const { return in(Stage::kArmed) + in(Stage::kSyncing) + in(Stage::kSynced); }

  // Returns a worker to contact: one whose back-off is over by `now`, otherwise a queued one. The
  // caller begins an attempt with it.
  std::optional<size_t> NextToContact(absl::Time now);
  bool has_queued() const { return next_queued_ < slots_.size(); }
  // When the next back-off is over.
  absl::Time next_wake() const { return wakes_.first(); }
  // Counts the workers that record although their planned end has passed by `now`, which never
  // decreases.
  size_t Overdue(absl::Time now);
  // The latest planned end of those that are not overdue.
  absl::Time last_end() const { return ends_.last(); }
  // The earliest planned end of those.
  absl::Time next_end() const { return ends_.first(); }

 private:
  static bool IsFirstAttempt(const Slot& slot);

  std::vector<Slot> slots_;
  std::array<size_t, kStages> counts_{};
  size_t first_attempts_ = 0;
  size_t next_queued_ = 0;  // those before it have left the queue
  Schedule attempts_;       // when they stall; without stalled ones
  Schedule syncs_;          // likewise
  Schedule wakes_;
  Schedule ends_;  // of those that record and are not overdue
};

}  // namespace jobscope

#endif  // CLIENT_FAN_OUT_ROSTER_H_
