// SPDX-License-Identifier: Apache-2.0
//
// Owns the threads on which answers of workers arrive.
#ifndef CLIENT_RPC_CALL_THREADS_H_
#define CLIENT_RPC_CALL_THREADS_H_

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/rpc/timers.h"
#include "common/threads/thread_group.h"

namespace jobscope {

// Returns RESOURCE_EXHAUSTED with a remedy if the limits on threads or address space are too low
// for a client, gRPC's threads included: gRPC ends the process when it cannot start one, or never
// answers. Call it before the first thread starts. Takes a millisecond if a limit may be near.
absl::Status EnsureThreads();

// Serves one completion queue of our own with a few threads. gRPC's callback threads will not do:
// in gRPC 1.51 the thread that releases the last channel joins them, and aborts the process if it
// is one of them (observed: a channel's last call, cancelled, holds the channel).
class CallThreads {
 public:
  // Keeps the queue open. Required by code that starts a timer, or puts something into the queue
  // again from OnDone (a stream does).
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
  // RESOURCE_EXHAUSTED: no thread could be started, and no answer would arrive.
  const absl::Status& started() const { return started_; }
  // Blocks until there are no leases and all calls are done: owners of calls cancel them first.
  // Must not run on one of the threads themselves.
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // Blocks until there are no leases; the caller must have asked their holders to end. New leases
  // may follow.
  void AwaitUnused();

  // Its tags are Completions.
  grpc::CompletionQueue* queue() { return &queue_; }
  Timers* timers() { return &timers_; }

 private:
  void Serve();

  absl::Mutex mutex_;
  int leases_ ABSL_GUARDED_BY(mutex_) = 0;
  // Never connects. When a process's last channel is destroyed, it joins the threads of gRPC's
  // engine, which takes 2 to 5 ms; this one outlives those of the workers, and a program that ends
  // by _exit.
  const std::shared_ptr<grpc::Channel> engine_;
  grpc::CompletionQueue queue_;
  Timers timers_{&queue_};
  absl::Status started_;
  ThreadGroup threads_;
};

}  // namespace jobscope

#endif  // CLIENT_RPC_CALL_THREADS_H_
