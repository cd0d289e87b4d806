// SPDX-License-Identifier: Apache-2.0
//
// Talks to a worker that speaks jobscope.v1.Profiler: streams the recording while it runs.
#ifndef CLIENT_NATIVE_NATIVE_WORKER_H_
#define CLIENT_NATIVE_NATIVE_WORKER_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/native/clock_burst.h"
#include "client/native/streamed_capture.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/dial.h"
#include "client/rpc/unary_calls.h"
#include "client/run/write_pool.h"
#include "client/worker/worker_client.h"
#include "common/net/endpoint.h"

namespace jobscope {

struct NativeWorkerOptions {
  DialOptions dial;
  // Directory of the spool: the run's, so that both are on one disk.
  std::string spool_directory;
  uint64_t max_trace_bytes = 0;  // --max_trace_mb; 0: no limit but the disk
  uint64_t part_limit_bytes = uint64_t{256} << 20;
  absl::Duration resume_timeout = absl::Seconds(5);
  StreamTimeouts timeouts;
  ReceiveLimits receive_limits;
};

// Captures one worker. Thread-safe. Has no thread of its own: answers arrive on `threads`, items
// are spooled on `disk`.
class NativeWorker : public WorkerClient {
 public:
  // Dials at the first call. Both must outlive this, and the pool must outlive the threads, which
  // wait until a cancelled capture has notified its worker (at most a second).
  NativeWorker(const Endpoint& endpoint, NativeWorkerOptions options, CallThreads* threads,
               WritePool* disk);
  ~NativeWorker() override;

  void Describe(absl::Duration timeout, DescribeDone done) override;
  void Arm(const ArmCall& call, WorkerEvents events) override;
  std::optional<ClockEstimate> arm_clock() const override { return capture_->arm_clock(); }
  void SyncClock(absl::Duration timeout, ClockDone done) override;
  void Start(const StartCall& call) override;
  void Stop(const std::string& session_id, absl::Duration timeout, StopDone done) override;
  void Cancel() override;
  bool connected() const override;
  std::shared_ptr<void> connection() const override { return channel_; }

 private:
  CallThreads* const threads_;
  const std::shared_ptr<grpc::Channel> channel_;
  UnaryCalls calls_;
  const std::shared_ptr<StreamedCapture> capture_;
  absl::Mutex mutex_;
  std::weak_ptr<ClockBurst> burst_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_NATIVE_WORKER_H_
