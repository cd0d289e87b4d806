// SPDX-License-Identifier: Apache-2.0
//
// Makes unary calls without a thread: those that every kind of worker needs, whatever its protocol.
#ifndef CLIENT_RPC_UNARY_CALLS_H_
#define CLIENT_RPC_UNARY_CALLS_H_

#include <google/protobuf/message_lite.h>
#include <grpcpp/channel.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "client/rpc/call_threads.h"
#include "client/worker/worker_client.h"

namespace jobscope {

// Makes the unary calls of one channel, with raw bytes. Thread-safe. Callbacks run on the threads,
// exactly once for each call, possibly after this is destroyed: they own what they use.
class UnaryCalls {
 public:
  // `reply` may be swapped out (a ByteBuffer of gRPC 1.51 cannot be moved, and a copy would keep
  // the answer's memory).
  using Done = std::function<void(const grpc::Status& status, grpc::ByteBuffer* reply)>;

  // The destructor of `threads` blocks until this is destroyed.
  UnaryCalls(std::shared_ptr<grpc::Channel> channel, CallThreads* threads);
  // Cancels the calls in flight.
  ~UnaryCalls();
  UnaryCalls(const UnaryCalls&) = delete;
  UnaryCalls& operator=(const UnaryCalls&) = delete;

  // Starts a call. `method` is a path, "/package.Service/Method". Never waits for a connection:
  // returns UNAVAILABLE if none can be made.
  void Start(const char* method, const std::string& request, absl::Duration timeout, Done done);

  // jobscope.v1.Profiler. UNIMPLEMENTED: the worker is not one of ours.
  void Describe(absl::Duration timeout, WorkerClient::DescribeDone done);
  void Stop(const std::string& session_id, absl::Duration timeout, WorkerClient::StopDone done);
  using StopAnswered = std::function<void(const grpc::Status& status, v1::StopResponse response)>;
  void AskStop(const std::string& session_id, absl::Duration timeout, StopAnswered done);
  // UNIMPLEMENTED also stands for an older worker of ours.
  void Close(absl::Duration timeout, std::function<void(const grpc::Status& status)> done);
  // tensorflow.ProfilerService. The answer says only that the worker was asked.
  void Terminate(const std::string& session_id, absl::Duration timeout,
                 WorkerClient::StopDone done);

  // The calls in flight end soon with CANCELLED.
  void CancelAll();

 private:
  class Call;
  struct InFlight;  // shared with the calls

  const std::shared_ptr<grpc::Channel> channel_;
  const std::shared_ptr<InFlight> in_flight_;
  CallThreads* const threads_;
  const CallThreads::Lease lease_;  // answers lead to further calls
};

// Parses a small message. Returns false if the bytes are invalid, or more than 4 MiB: a foreign
// server must not make us copy gigabytes.
bool ParseSmall(const grpc::ByteBuffer& bytes, google::protobuf::MessageLite* message);

}  // namespace jobscope

#endif  // CLIENT_RPC_UNARY_CALLS_H_
