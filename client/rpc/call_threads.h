// SPDX-License-Identifier: Apache-2.0
//
// The threads on which answers of workers arrive.
#ifndef CLIENT_RPC_CALL_THREADS_H_
#define CLIENT_RPC_CALL_THREADS_H_

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace jobscope {

// One completion queue of our own and a few threads that serve it. Not gRPC's callback threads:
// those of gRPC 1.51 are joined by whoever lets go of the last channel, and abort the process when
// that happens on one of themselves (observed: the last call of a channel, cancelled, holds it).
class CallThreads {
 public:
  // What a call puts into the queue as its tag.
  class Call {
   public:
    virtual ~Call() = default;
    // Runs once for each time that this was put into the queue, on one of the threads; must not
    // block. `ok` is what the queue tells of the operation; always true of the end of a call.
    virtual void OnDone(bool ok) = 0;
  };

  // Whoever puts something into the queue again from OnDone (a stream does) has one of these, so
  // that the queue is still open then.
  class Lease {
   public:
    explicit Lease(CallThreads* threads);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;

   private:
    CallThreads* const threads_;
  };

  CallThreads();
  // Waits until there are no leases and all calls are done: whoever owns calls cancels them first.
  // Never on one of the threads themselves.
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // Blocks until there are no leases: whoever has one was told to end. New ones may come after it.
  void AwaitUnused();

  grpc::CompletionQueue* queue() { return &queue_; }

 private:
  void Serve();

  absl::Mutex mutex_;
  int leases_ ABSL_GUARDED_BY(mutex_) = 0;
  // Never connects. The last channel of a process to be destroyed joins the threads of gRPC's
  // engine, which takes 2 to 5 ms; this one outlives those of the workers, and a program that ends
  // by _exit.
  const std::shared_ptr<grpc::Channel> engine_;
  grpc::CompletionQueue queue_;
  std::vector<std::thread> threads_;
};

}  // namespace jobscope

#endif  // CLIENT_RPC_CALL_THREADS_H_
