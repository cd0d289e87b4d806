// SPDX-License-Identifier: Apache-2.0
//
// Owns the threads on which answers of workers arrive.
#ifndef CLIENT_RPC_CALL_THREADS_H_
#define CLIENT_RPC_CALL_THREADS_H_

#include <grpcpp/channel.h>
#include <grpcpp/completion_queue.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace jobscope {

// Serves one completion queue of our own with a few threads. gRPC's callback threads will not do:
// in gRPC 1.51 the thread that releases the last channel joins them, and aborts the process if it
// is one of them (observed: a channel's last call, cancelled, holds the channel).
class CallThreads {
 public:
  // What a call puts into the queue as its tag.
  class Call {
   public:
    virtual ~Call() = default;
    // Runs once for each time that this was put into the queue, on one of the threads; must not
    // block. `ok` is the queue's result of the operation; always true for the end of a call.
    virtual void OnDone(bool ok) = 0;
  };

  // Keeps the queue open. Required by code that puts something into the queue again from OnDone (a
  // stream does).
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
  // Blocks until there are no leases and all calls are done: owners of calls cancel them first.
  // Must not run on one of the threads themselves.
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;
  CallThreads& operator=(const CallThreads&) = delete;

  // Blocks until there are no leases; their holders must have been told to end. New leases may
  // follow.
  void AwaitUnused();

  grpc::CompletionQueue* queue() { return &queue_; }

  // A timer fired at `now_ns` of MONOTONIC instead of `due_ns`.
  void NoteTimer(uint64_t due_ns, uint64_t now_ns);
  // When a timer was last noted that was half a second late or more; 0: none was. Up to then these
  // threads did not keep up, or the machine slept: what looks like silence of a worker may be a
  // message that was not read yet.
  uint64_t last_late_ns() const { return last_late_ns_.load(std::memory_order_relaxed); }

 private:
  void Serve();

  absl::Mutex mutex_;
  int leases_ ABSL_GUARDED_BY(mutex_) = 0;
  // Never connects. When a process's last channel is destroyed, it joins the threads of gRPC's
  // engine, which takes 2 to 5 ms; this one outlives those of the workers, and a program that ends
  // by _exit.
  const std::shared_ptr<grpc::Channel> engine_;
  grpc::CompletionQueue queue_;
  std::atomic<uint64_t> last_late_ns_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace jobscope

#endif  // CLIENT_RPC_CALL_THREADS_H_
