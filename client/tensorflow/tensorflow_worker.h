// SPDX-License-Identifier: Apache-2.0
//
// Captures a worker over tensorflow.ProfilerService: one request, and one answer with the whole
// trace. For stock workers, and for those of jobscope on request.
#ifndef CLIENT_TENSORFLOW_TENSORFLOW_WORKER_H_
#define CLIENT_TENSORFLOW_TENSORFLOW_WORKER_H_

#include <grpcpp/channel.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/unary_calls.h"
#include "client/worker/worker_client.h"

namespace jobscope {

// Detects hung workers. A unary answer shows no progress, so a deadline alone cannot distinguish a
// hung worker from one that sends a gigabyte. An overdue worker is probed on the same connection
// every `period`, and has `silence` to answer.
struct ProbeTimes {
  absl::Duration period = absl::Seconds(2);
  absl::Duration silence = absl::Seconds(7);
};

class TensorflowWorker : public WorkerClient {
 public:
  // `threads` must outlive this.
  TensorflowWorker(std::shared_ptr<grpc::Channel> channel, CallThreads* threads, ProbeTimes times);
  ~TensorflowWorker() override;

  void Describe(absl::Duration timeout, DescribeDone done) override;
  // Has nothing to ask: calls `armed` at once.
  void Arm(const ArmCall& call, WorkerEvents events) override;
  // Likewise, without an estimate.
  void SyncClock(absl::Duration timeout, ClockDone done) override;
  // Sends the request at the instant itself: a worker that knows the instant in advance sleeps
  // until its own clock shows it, holding the profiler's lock, and if its clock is behind, it
  // sleeps too long. If silence, or another client's capture, was the cause, the status text of
  // `ended` is for people.
  void Start(const StartCall& call) override;
  // The protocol does not say whether the worker stopped: `stopped` is true if it was asked. If it
  // is this object's recording, asks again until the worker answers, and `ended` comes soon after
  // StartCall::transfer at the latest.
  void Stop(const std::string& session_id, absl::Duration timeout, StopDone done) override;
  void Cancel() override;
  bool connected() const override;

 private:
  class Recording;

  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<UnaryCalls> calls_;
  // The worker answers Describe: it is one of ours.
  const std::shared_ptr<std::atomic<bool>> ours_;
  // Set from Arm on; shared with what is in flight.
  std::shared_ptr<Recording> recording_;
  CallThreads* const threads_;
  const ProbeTimes times_;
};

// Serialises the request whose answer contains the trace, from our workers and from stock ones.
std::string ProfileRequestBytes(const ArmCall& arm, const StartCall& start);

}  // namespace jobscope

#endif  // CLIENT_TENSORFLOW_TENSORFLOW_WORKER_H_
