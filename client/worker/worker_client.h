// SPDX-License-Identifier: Apache-2.0
//
// Declares the interface of one worker, between the decisions of the fan-out and the protocols.
// NativeWorker streams the trace; TensorflowWorker receives it in one answer, from a stock worker
// or from one of jobscope.
#ifndef CLIENT_WORKER_WORKER_CLIENT_H_
#define CLIENT_WORKER_WORKER_CLIENT_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/clock/clock_sync.h"
#include "client/worker/worker_outcome.h"
#include "common/net/endpoint.h"
#include "common/options/recording_options.h"
#include "common/run/manifest.h"
#include "common/run/outcome.h"
#include "common/run/run_directory.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// What to record: the same for all workers of a run, except `file_stem`.
struct ArmCall {
  std::string session_id;
  std::string file_stem;        // names the worker's files
  std::string repository_root;  // only for workers that write their own files
  RecordingOptions recording;
  absl::Duration lookback;
  bool by_steps = false;
  absl::Duration timeout;  // for `armed`
};

// When to record. Instants are on this machine's MONOTONIC clock (MonotonicNow,
// common/clock/monotonic.h); implementations convert them to the worker's with `clock`.
struct StartCall {
  // The result of SyncClock, narrowed by those of other workers of the same host
  // (client/clock/clock_groups.h). Absent if there is none: a native worker then starts as soon as
  // it receives the call, and its zero is its own start minus the lookback.
  std::optional<ClockEstimate> clock;
  uint64_t start_monotonic_ns = 0;
  uint64_t zero_monotonic_ns = 0;  // of all traces of the run: start minus lookback
  int64_t start_unix_ns = 0;       // the same start, on this machine's REALTIME
  int64_t zero_unix_ns = 0;        // the same zero, likewise
  absl::Duration duration;
  std::optional<v1::StepWindow> steps;
  // The worker's process, by an id that is valid on this machine too (common/process/pid_space.h).
  std::optional<int64_t> process_id;
  // How long after the planned end the last byte may arrive.
  absl::Duration transfer;
};

// A worker's data, ready to be written.
class Delivery {
 public:
  virtual ~Delivery() = default;
  // Writes the trace's files, "<stem>.xplane.pb" and its parts, fills `account` (files, counts,
  // identity, clocks, warnings) and returns the outcome. A file appears under its final name only
  // if it is complete. Blocks on the disk. Call it once.
  virtual WorkerOutcome Write(const RunDirectory& directory, const std::string& stem,
                              ManifestWorker* account) = 0;
};

// What a worker reports after Arm. Called on any thread, must not block. May be called after the
// worker's destructor: the callbacks own what they use.
struct WorkerEvents {
  // Exactly once, with OK or the reason. For a stock worker at once, with an empty message.
  std::function<void(grpc::Status, v1::Armed)> armed;
  // Recording has begun. At most once, only for native workers.
  std::function<void(v1::Started)> started;
  // At most 5 times per second, from `armed` on, only for native workers.
  std::function<void(v1::Progress)> progress;
  // Information for people while it happens: "connection lost, trying again".
  std::function<void(std::string)> note;
  // Exactly once if `armed` was OK, in bounded time, whatever the worker does. Without a delivery,
  // the status says why.
  std::function<void(grpc::Status, std::unique_ptr<Delivery>)> ended;
};

// Talks to one worker. All functions return at once. A callback may run on any thread, also before
// the function returns, and must not block.
class WorkerClient {
 public:
  using DescribeDone = std::function<void(grpc::Status, v1::DescribeResponse)>;
  using StopDone = std::function<void(grpc::Status, bool stopped)>;
  using ClockDone = std::function<void(grpc::Status, std::optional<ClockEstimate>)>;

  // Ends what is in flight, like Cancel.
  virtual ~WorkerClient() = default;

  // Asks for the worker's identity and state. Returns UNIMPLEMENTED for a worker that speaks only
  // tensorflow.ProfilerService. Connects if necessary; an answer of any kind but silence proves
  // that the worker's server is alive.
  virtual void Describe(absl::Duration timeout, DescribeDone done) = 0;

  // Prepares the recording. Call it once.
  virtual void Arm(const ArmCall& call, WorkerEvents events) = 0;

  // Returns an estimate of the worker's clock from Arm and its answer: like one ping, but possibly
  // a slow one. Valid after `armed`.
  virtual std::optional<ClockEstimate> arm_clock() const { return std::nullopt; }

  // Measures the worker's clock against ours. For a stock worker calls `done` at once, without an
  // estimate. Call it after Arm.
  virtual void SyncClock(absl::Duration timeout, ClockDone done) = 0;

  // Records. Call it once, after `armed`.
  virtual void Start(const StartCall& call) = 0;

  // Ends the recording now; its data arrive as planned, and nothing waits for its planned end any
  // more. `session_id` may name any session, not only this object's; empty: whichever runs (not for
  // stock workers).
  virtual void Stop(const std::string& session_id, absl::Duration timeout, StopDone done) = 0;

  // Abandons the capture: the worker discards its data, and `ended` is called soon with CANCELLED.
  virtual void Cancel() = 0;

  // Returns whether the connection is established.
  virtual bool connected() const = 0;

  // Returns what keeps the connection open after this object is destroyed; null: nothing.
  virtual std::shared_ptr<void> connection() const { return nullptr; }
};

using WorkerFactory = std::function<std::unique_ptr<WorkerClient>(const Endpoint&, Protocol)>;

}  // namespace jobscope

#endif  // CLIENT_WORKER_WORKER_CLIENT_H_
