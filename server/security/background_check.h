// SPDX-License-Identifier: Apache-2.0
//
// Runs the checks of files that callers trigger, where a file system that hangs stops no caller.
#ifndef SERVER_SECURITY_BACKGROUND_CHECK_H_
#define SERVER_SECURITY_BACKGROUND_CHECK_H_

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace jobscope {

// Runs a check at most once a second, and only when asked: an idle worker has no thread and no
// timer for it. Each one runs on a thread of its own: those who ask are the thread that accepts all
// connections and gRPC's, which a file system that hangs (NFS) must not stop. Thread-safe.
class BackgroundCheck {
 public:
  // `name`: of the check's thread, a literal of at most 15 characters.
  explicit BackgroundCheck(const char* name) : name_(name) {}

  // Starts `check`, unless one has been started within the last second or still runs, and waits for
  // it, at most 100 ms. Does not wait for a check that an earlier call has started. `check` keeps
  // the owner of this object alive. If no thread can be created, nothing is checked.
  void Run(absl::AnyInvocable<void()> check);

 private:
  const char* const name_;
  absl::Mutex mutex_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t started_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // on MONOTONIC
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_BACKGROUND_CHECK_H_
