// SPDX-License-Identifier: Apache-2.0
//
// A worker over unary RPCs: tensorflow.ProfilerService for the trace, jobscope.v1.Profiler for
// Describe and Stop.
#ifndef CLIENT_TENSORFLOW_WORKER_H_
#define CLIENT_TENSORFLOW_WORKER_H_

#include <grpcpp/channel.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "client/call_threads.h"
#include "client/worker.h"
#include "common/endpoint.h"

namespace jobscope {

// A channel and its calls. Callbacks run on `threads`. Each instance connects for itself.
class TensorflowWorker : public Worker {
 public:
  // Dials at the first call. A connection attempt is given up after `connect_timeout`. An answer
  // over `max_reply_bytes` (at most 2^31 - 1, the limit of a gRPC message) fails with
  // RESOURCE_EXHAUSTED. `threads` must outlive this.
  TensorflowWorker(const Endpoint& endpoint, absl::Duration connect_timeout, int max_reply_bytes,
                   CallThreads* threads);
  ~TensorflowWorker() override;

  void Describe(absl::Time deadline, DescribeDone done) override;
  void Capture(const CaptureCall& call, CaptureDone done) override;
  void Stop(const std::string& session_id, bool native, absl::Time deadline,
            StopDone done) override;
  void Cancel() override;
  bool connected() const override;

 private:
  class Call;
  struct Calls;  // those in flight; shared with them

  // One unary call, bytes in and bytes out.
  void Start(const char* method, const std::string& request, absl::Time deadline, CaptureDone done);

  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<Calls> calls_;
  CallThreads* const threads_;
};

// The request that brings the trace back in the answer, from our workers and from stock ones.
std::string ProfileRequestBytes(const CaptureCall& call);

}  // namespace jobscope

#endif  // CLIENT_TENSORFLOW_WORKER_H_
