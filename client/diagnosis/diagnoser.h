// SPDX-License-Identifier: Apache-2.0
//
// Replaces "no connection" by its cause if credentials are the cause.
#ifndef CLIENT_DIAGNOSIS_DIAGNOSER_H_
#define CLIENT_DIAGNOSIS_DIAGNOSER_H_

#include <grpcpp/support/status.h>

#include <deque>
#include <functional>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "client/rpc/credentials.h"
#include "client/worker/worker_client.h"
#include "common/net/endpoint.h"
#include "common/threads/thread_group.h"

namespace jobscope {

// Diagnoses failed connections. A diagnosis blocks for a handshake: it runs on threads of this
// object, few at a time, and only after a connection failed. Thread-safe.
class Diagnoser {
 public:
  // Null: plain HTTP/2.
  explicit Diagnoser(std::shared_ptr<const ClientCredentials> credentials);
  // Cancels queued diagnoses: their callers get gRPC's own text. Must outlive all workers, and
  // what their callbacks use must outlive this.
  ~Diagnoser();
  Diagnoser(const Diagnoser&) = delete;
  Diagnoser& operator=(const Diagnoser&) = delete;

  using Done = std::function<void(grpc::Status)>;
  // Calls `done` once: at once with `status` if credentials cannot be the cause; else soon, on one
  // of the threads, with UNAUTHENTICATED and the cause if one is found.
  void Explain(const Endpoint& endpoint, const grpc::Status& status, Done done);

  // Wraps workers such that their Describe and Stop report the cause.
  WorkerFactory Wrap(WorkerFactory factory);

 private:
  struct Case {
    Endpoint endpoint;
    grpc::Status status;
    Done done;
  };
  void Serve();

  const std::shared_ptr<const ClientCredentials> credentials_;
  absl::Mutex mutex_;
  std::deque<Case> waiting_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  ThreadGroup threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // CLIENT_DIAGNOSIS_DIAGNOSER_H_
