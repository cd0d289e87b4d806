// SPDX-License-Identifier: Apache-2.0
//
// One worker as the fan-out sees it. The seam between "what to ask whom, and when" and the protocol
// that asks.
#ifndef CLIENT_WORKER_H_
#define CLIENT_WORKER_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "common/endpoint.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// What is to be recorded, the same for all workers of a run but for `file_stem` and `start`.
struct CaptureCall {
  std::string session_id;
  std::string file_stem;            // what the worker names its trace by
  std::string repository_root;      // only for workers that write their own files
  std::optional<absl::Time> start;  // absent: at once
  absl::Duration duration;
  uint32_t host_tracer_level = 2;
  uint32_t device_tracer_level = 1;
  uint32_t python_tracer_level = 0;
  absl::Time deadline;  // for the whole answer
};

// All functions return at once; a callback runs exactly once, on any thread, possibly before the
// function returns. It must not block. After the destructor callbacks may still run, with
// CANCELLED: they own what they touch.
class Worker {
 public:
  using DescribeDone = std::function<void(grpc::Status, v1::DescribeResponse)>;
  using CaptureDone = std::function<void(grpc::Status, grpc::ByteBuffer)>;
  using StopDone = std::function<void(grpc::Status, bool stopped)>;

  virtual ~Worker() = default;

  // Who is there. UNIMPLEMENTED: a worker that speaks only tensorflow.ProfilerService. Connects
  // where there is no connection yet; an answer of any kind but silence proves that the worker's
  // server lives.
  virtual void Describe(absl::Time deadline, DescribeDone done) = 0;

  // Records, and brings the serialized ProfileResponse.
  virtual void Capture(const CaptureCall& call, CaptureDone done) = 0;

  // Ends the session early; its data come through the Capture call. `native`: by
  // jobscope.v1.Profiler/Stop, otherwise by Terminate, which says nothing about whether the session
  // existed (`stopped` is then true).
  virtual void Stop(const std::string& session_id, bool native, absl::Time deadline,
                    StopDone done) = 0;

  // Ends all calls in flight; their callbacks run soon, with CANCELLED.
  virtual void Cancel() = 0;

  // The connection stands.
  virtual bool connected() const = 0;
};

using WorkerFactory = std::function<std::unique_ptr<Worker>(const Endpoint&)>;

}  // namespace jobscope

#endif  // CLIENT_WORKER_H_
