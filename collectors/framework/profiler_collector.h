// SPDX-License-Identifier: Apache-2.0
//
// Collects from a framework with a profiler of its own: drives that profiler's session through
// Python and merges its recording.
#ifndef COLLECTORS_FRAMEWORK_PROFILER_COLLECTOR_H_
#define COLLECTORS_FRAMEWORK_PROFILER_COLLECTOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "collectors/collector.h"
#include "collectors/framework/mapped_xspace.h"
#include "collectors/framework/piece_length.h"
#include "collectors/framework/profiler_handover.h"
#include "collectors/framework/thread_lines.h"
#include "collectors/python/bridge/script.h"
#include "collectors/xspace_import/foreign_xspace.h"
#include "common/sync/mutex.h"

namespace jobscope {

// What the composition root knows about the process.
struct FrameworkEnvironment {
  bool uses_tsc = true;  // whether the session's ticks are TSC
  // Returns whether a step that began in [from_ticks, to_ticks] is in the trace, marked by anyone.
  // Any thread, must not block. Empty: nothing marks steps.
  std::function<bool(uint64_t from_ticks, uint64_t to_ticks)> has_steps;
  // Returns whether jobscope traces the GPUs of the session that is being armed. Empty: no.
  std::function<bool(const ArmRequest&)> traces_gpus;
};

namespace framework {

// The differences between frameworks.
struct ProfilerKind {
  std::string name;                     // of the collector, "jax"
  std::string origin;                   // in messages, "JAX"
  std::string module;                   // in sys.modules once the framework is loaded
  std::string_view script;              // Python source, before that of profiler_session.py
  uint32_t segment_source = 0;          // a TraceSource
  std::optional<StepCalls> step_calls;  // for inferring steps
  // If a process has several frameworks, steps are inferred from the calls of this one. True for
  // JAX: TensorFlow beside it reads data.
  bool has_the_loop = false;
};

// Drives the profiler of one framework. Never imports the framework: a process that has not loaded
// it is left alone. The profiler supports one session per process, and the program has priority:
// while its own session runs, ours is refused with that reason; if it starts one during ours, ours
// ends, `degraded` with that reason, before the program's begins (profiler_session.py).
//
// Such a profiler keeps all events until it is stopped, and takes about 2 us per event to hand them
// over. So a long recording is made in pieces, each of which can be handed over within a fraction
// of Stop's deadline. It does not record meanwhile; the trace reports for how long.
//
// Calls wait for the GIL without holding anything that the program could wait for.
class ProfilerCollector : public Collector {
 public:
  ProfilerCollector(ProfilerKind kind, FrameworkEnvironment environment);
  ~ProfilerCollector() override;
  ProfilerCollector(const ProfilerCollector&) = delete;
  ProfilerCollector& operator=(const ProfilerCollector&) = delete;

  std::string_view name() const override { return kind_.name; }
  CollectorReport Describe() const override;
  std::string WhyOff(const ArmRequest& request) const override;
  absl::Status Arm(const ArmRequest& request) override;
  absl::Status Start(const StartRequest& request) override;
  absl::Duration Drain() override;
  absl::Status Stop(uint64_t end_ticks) override;
  CollectorReport Report() override;
  uint64_t LostSoFar() const override { return lost_so_far_.load(std::memory_order_relaxed); }

 private:
  // A finished recording that is held until it is known which events lie in the window.
  struct Piece {
    MappedXSpace xspace;
    ClockSample before, after;
    uint64_t merge_ticks = 0;  // earliest time to merge it
  };

  void Off(std::string reason);
  absl::Status Fail(std::string reason);
  // Starts the framework's session.
  absl::Status Begin();
  // Stops it and takes its recording.
  absl::StatusOr<Piece> Take();
  // Takes a piece to be merged later.
  void TakePiece();
  absl::StatusOr<python::Value> Call(const char* function,
                                     const std::vector<python::Value>& arguments = {}) const;
  void MergeWaiting(uint64_t end_ticks);
  void LearnThreads();
  // Returns the time since the piece began.
  absl::Duration Recorded() const;
  bool EndsSoon(uint64_t now_ticks) const;
  uint64_t Ticks(absl::Duration duration) const;
  uint64_t Now() const;
  void CloseAccount();

  const ProfilerKind kind_;
  const FrameworkEnvironment environment_;
  const std::shared_ptr<ProfilerHandover> handover_;
  std::atomic<uint64_t> lost_so_far_{0};

  // Used only by the collector's thread.
  std::unique_ptr<python::Script> script_;  // created on first use
  PieceLength piece_length_;
  ArmRequest request_;
  StartRequest start_;
  bool armed_ = false;
  bool recording_ = false;  // the framework's session is running
  ClockSample piece_begin_;
  std::optional<Piece> waiting_;
  absl::Duration paused_;  // while pieces were handed over
  ThreadLines thread_lines_;
  std::unique_ptr<framework::ForeignXSpace> merge_;
  std::string trouble_;  // why the recording is incomplete
  CollectorReport report_;

  mutable Mutex mutex_;
  CollectorReport last_
      ABSL_GUARDED_BY(mutex_);  // state and reason of the last session, for Describe
};

}  // namespace framework
}  // namespace jobscope

#endif  // COLLECTORS_FRAMEWORK_PROFILER_COLLECTOR_H_
