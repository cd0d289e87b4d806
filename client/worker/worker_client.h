// SPDX-License-Identifier: Apache-2.0
//
// One worker as the fan-out sees it. The seam between "what to ask whom, and when" and the protocol
// that asks: NativeWorker streams, TensorflowWorker asks a stock worker (or one of ours) for one
// answer.
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
#include "client/worker/outcome.h"
#include "common/net/endpoint.h"
#include "common/run/manifest.h"
#include "common/run/run_directory.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

enum class Protocol { kNative, kTensorflow };

// What is to be recorded: the same for all workers of a run, but for `file_stem`.
struct ArmCall {
  std::string session_id;
  std::string file_stem;        // what the worker's files are named by
  std::string repository_root;  // only for workers that write their own files
  uint32_t host_tracer_level = 2;
  uint32_t device_tracer_level = 1;
  uint32_t python_tracer_level = 0;
  std::string frameworks = "auto";
  bool record_shapes = false;
  std::string device_tracer = "auto";
  absl::Duration lookback;
  bool by_steps = false;
  absl::Duration timeout;  // for `armed`
};

// When. Instants are on this machine's MONOTONIC clock (MonotonicNow, client/clock/monotonic.h);
// implementations move them onto the worker's by `clock`.
struct StartCall {
  // What SyncClock brought, narrowed by what other workers of the same host brought
  // (client/clock/clock_groups.h). Absent: it brought nothing, or was not asked. Then a native
  // worker starts at once, whenever that is, and its zero is its own start minus the lookback.
  std::optional<ClockEstimate> clock;
  uint64_t start_monotonic_ns = 0;
  uint64_t zero_monotonic_ns = 0;  // of all traces of the run: start minus lookback
  int64_t start_unix_ns = 0;       // the same start, on this machine's REALTIME
  int64_t zero_unix_ns = 0;        // the same zero, likewise
  absl::Duration duration;
  std::optional<v1::StepWindow> steps;
  // The worker's process, by an id that means it on this machine too (common/process/pid_space.h).
  std::optional<int64_t> process_id;
  // How long after the planned end the last byte may come.
  absl::Duration transfer;
};

// What a worker has brought, ready to be written.
class Delivery {
 public:
  virtual ~Delivery() = default;
  // Writes the trace's files, "<stem>.xplane.pb" and its parts, fills `account` (files, counts,
  // identity, clocks, warnings) and gives the verdict. A file appears under its final name only if
  // it is whole. Blocks for the disk; once.
  virtual Verdict Write(const RunDirectory& directory, const std::string& stem,
                        ManifestWorker* account) = 0;
};

// What a worker tells after Arm. Any thread, must not block; may still come after the worker's
// destructor: they own what they touch.
struct WorkerEvents {
  // Exactly once, with OK or the reason. Of a stock worker: at once, empty.
  std::function<void(grpc::Status, v1::Armed)> armed;
  // Recording has begun. At most once, only of native workers.
  std::function<void(v1::Started)> started;
  // At most 5 per second, from `armed` on, only of native workers.
  std::function<void(v1::Progress)> progress;
  // Something that people should know, while it happens: "connection lost, trying again".
  std::function<void(std::string)> note;
  // Exactly once if `armed` was OK, in bounded time, whatever the worker does. Without a delivery
  // the status tells why there is none.
  std::function<void(grpc::Status, std::unique_ptr<Delivery>)> ended;
};

// All functions return at once; a callback may come on any thread, also before the function
// returns. It must not block.
class WorkerClient {
 public:
  using DescribeDone = std::function<void(grpc::Status, v1::DescribeResponse)>;
  using StopDone = std::function<void(grpc::Status, bool stopped)>;
  using ClockDone = std::function<void(grpc::Status, std::optional<ClockEstimate>)>;

  // Ends what is in flight, as Cancel does.
  virtual ~WorkerClient() = default;

  // Who is there. UNIMPLEMENTED: a worker that speaks only tensorflow.ProfilerService. Connects
  // where there is no connection yet; an answer of any kind but silence proves that the worker's
  // server lives.
  virtual void Describe(absl::Duration timeout, DescribeDone done) = 0;

  // Prepares the recording. Once.
  virtual void Arm(const ArmCall& call, WorkerEvents events) = 0;

  // What the way of Arm and of its answer tells of the worker's clock: as one ping, but maybe a
  // slow one. After `armed`.
  virtual std::optional<ClockEstimate> arm_clock() const { return std::nullopt; }

  // Measures the worker's clock against ours. A stock worker: at once, nothing. After Arm.
  virtual void SyncClock(absl::Duration timeout, ClockDone done) = 0;

  // Records. Once, after `armed`.
  virtual void Start(const StartCall& call) = 0;

  // Ends the recording now; its data come as planned, and from now on nothing waits for its planned
  // end. `session_id`: of whatever session, not only of this object's; empty: whichever runs (not
  // for stock workers).
  virtual void Stop(const std::string& session_id, absl::Duration timeout, StopDone done) = 0;

  // Gives up: the worker drops what it has, `ended` comes soon with CANCELLED.
  virtual void Cancel() = 0;

  // The connection stands.
  virtual bool connected() const = 0;
};

using WorkerFactory = std::function<std::unique_ptr<WorkerClient>(const Endpoint&, Protocol)>;

}  // namespace jobscope

#endif  // CLIENT_WORKER_WORKER_CLIENT_H_
