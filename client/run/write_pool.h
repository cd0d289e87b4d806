// SPDX-License-Identifier: Apache-2.0
//
// Runs a few threads that write traces: one fsync must not wait for another, and a thousand at once
// would gain nothing.
#ifndef CLIENT_RUN_WRITE_POOL_H_
#define CLIENT_RUN_WRITE_POOL_H_

#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "common/threads/thread_group.h"

namespace jobscope {

class WritePool {
 public:
  using Job = absl::AnyInvocable<void()>;

  // Starts threads on demand, at most `max_threads` >= 1.
  explicit WritePool(size_t max_threads) : max_threads_(max_threads) {}
  // Finishes all jobs.
  ~WritePool();
  WritePool(const WritePool&) = delete;
  WritePool& operator=(const WritePool&) = delete;

  // Runs `job` on a thread. Thread-safe. Returns at once, unless no thread can be started: then
  // runs the job itself.
  void Run(Job job);

 private:
  void Work();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return closing_ || !jobs_.empty(); }

  const size_t max_threads_;
  absl::Mutex mutex_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  ThreadGroup threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // CLIENT_RUN_WRITE_POOL_H_
