// SPDX-License-Identifier: Apache-2.0
//
// Runs functions later, on the threads on which answers arrive.
#ifndef CLIENT_RPC_TIMERS_H_
#define CLIENT_RPC_TIMERS_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace jobscope {

// All timers share one alarm of gRPC. With an alarm each, ten thousand workers had 30,000 tags in
// the completion queue, and Debian's gRPC, which checks its assertions, searches all of them at
// each answer. Thread-safe.
class Timers {
 public:
  // When a timer is due, on MONOTONIC, and its number.
  using Id = std::pair<uint64_t, uint64_t>;

  // `queue` must outlive this.
  explicit Timers(grpc::CompletionQueue* queue) : queue_(queue) {}
  Timers(const Timers&) = delete;
  Timers& operator=(const Timers&) = delete;

  // Runs `fire` once, after `delay` or soon after that, unless cancelled before. `fire` must not
  // block. The queue must not be shut down.
  Id Start(absl::Duration delay, std::function<void()> fire);
  // `fire` is destroyed, unless it is running or has run.
  void Cancel(Id id);
  // No more timers are started, and those that are pending may not fire. Call it before the queue
  // is shut down, and serve the queue until it is empty before this is destroyed.
  void Stop();

  // A timer fired at `now_ns` of MONOTONIC instead of `due_ns`.
  void NoteLateness(uint64_t due_ns, uint64_t now_ns);
  // When a timer last fired that was half a second late or more; 0: none did. Up to then the
  // threads did not keep up, or the machine slept: what looks like silence of a worker may be a
  // message that was not read yet.
  uint64_t last_late_ns() const { return last_late_ns_.load(std::memory_order_relaxed); }

 private:
  using Pending = std::map<Id, std::function<void()>>;
  class Alarm;

  // Sets an alarm for the first timer, unless there is one that comes before it.
  void SetAlarm() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnAlarm(const Alarm* alarm);

  grpc::CompletionQueue* const queue_;
  std::atomic<uint64_t> last_late_ns_ = 0;
  absl::Mutex mutex_;
  Pending pending_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_number_ ABSL_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<Alarm> alarm_ ABSL_GUARDED_BY(mutex_);  // the one in use; others are cancelled
};

}  // namespace jobscope

#endif  // CLIENT_RPC_TIMERS_H_
