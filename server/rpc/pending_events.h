// SPDX-License-Identifier: Apache-2.0
//
// Collects the events of a stream for the one thread that handles them.
#ifndef SERVER_RPC_PENDING_EVENTS_H_
#define SERVER_RPC_PENDING_EVENTS_H_

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace jobscope {

// Holds a bit for each kind of event. One thread at a time is the handler, which calls Take until
// nothing is left. Thread-safe. Never blocks, and allocates nothing.
class PendingEvents {
 public:
  // Adds `events`. Returns whether the caller is the handler now.
  bool Add(unsigned events) {
    absl::MutexLock lock(&mutex_);
    bits_ |= events;
    return !std::exchange(handling_, true);
  }

  // Likewise, for callers that cannot be the handler: returns whether the caller must schedule a
  // thread that calls Add(0).
  bool AddForLater(unsigned events) {
    absl::MutexLock lock(&mutex_);
    bits_ |= events;
    return !handling_ && !std::exchange(scheduled_, true);
  }
  // That thread could not be scheduled: the next caller of AddForLater must do so.
  void NotScheduled() {
    absl::MutexLock lock(&mutex_);
    scheduled_ = false;
  }

  // Returns the pending events, and removes them. 0: none, and the caller is not the handler any
  // more.
  unsigned Take() {
    absl::MutexLock lock(&mutex_);
    scheduled_ = false;
    const unsigned bits = std::exchange(bits_, 0);
    if (bits == 0) handling_ = false;
    return bits;
  }

 private:
  absl::Mutex mutex_;
  unsigned bits_ ABSL_GUARDED_BY(mutex_) = 0;
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;
  bool scheduled_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // SERVER_RPC_PENDING_EVENTS_H_
