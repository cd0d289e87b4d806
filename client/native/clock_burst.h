// SPDX-License-Identifier: Apache-2.0
//
// Measures a worker's clock by a burst of pings over one SyncClock stream.
#ifndef CLIENT_NATIVE_CLOCK_BURST_H_
#define CLIENT_NATIVE_CLOCK_BURST_H_

#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/clock/clock_sync.h"
#include "client/native/native_stream.h"
#include "client/rpc/call_threads.h"
#include "client/worker/worker_client.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {

// Sends each ping when the answer to the previous one has arrived, so that none queues behind
// another. Owns itself until it is done.
class ClockBurst : public std::enable_shared_from_this<ClockBurst> {
 public:
  // Calls `done` once, on one of the threads: with OK and an estimate if any answer was usable,
  // however few arrived within `timeout`.
  static std::shared_ptr<ClockBurst> Start(const std::shared_ptr<grpc::Channel>& channel,
                                           absl::Duration timeout, CallThreads* threads,
                                           WorkerClient::ClockDone done);

  // `done` is called soon.
  void Cancel();

 private:
  explicit ClockBurst(WorkerClient::ClockDone done) : done_(std::move(done)) {}
  void OnPong(uint64_t received_ns, grpc::ByteBuffer* message);
  void OnDone(const grpc::Status& status);
  // Returns true if no more pings are needed.
  bool Take(const v1::ClockPong* pong, uint64_t received_ns) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ping() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  absl::Mutex mutex_;
  WorkerClient::ClockDone done_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<NativeStream> stream_ ABSL_GUARDED_BY(mutex_);
  ClockSync sync_ ABSL_GUARDED_BY(mutex_);
  uint64_t pings_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t sent_ns_ ABSL_GUARDED_BY(mutex_) = 0;
  bool bad_answer_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_CLOCK_BURST_H_
