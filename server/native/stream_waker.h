// SPDX-License-Identifier: Apache-2.0
//
// Wakes the stream that is attached to a capture.
#ifndef SERVER_NATIVE_STREAM_WAKER_H_
#define SERVER_NATIVE_STREAM_WAKER_H_

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/stream_call.h"

namespace jobscope {

// Holds a weak reference to the stream. Thread-safe. Separate from the capture, with its own lock,
// because a store's listener calls it with the lock of Names held, possibly after the capture has
// been destroyed.
class StreamWaker {
 public:
  void Set(const std::shared_ptr<StreamCall>& stream) {
    absl::MutexLock lock(&mutex_);
    stream_ = stream;
  }

  std::shared_ptr<StreamCall> Get() {
    absl::MutexLock lock(&mutex_);
    return stream_.lock();
  }

  void Wake() {
    if (const std::shared_ptr<StreamCall> stream = Get()) stream->Wake();
  }

 private:
  absl::Mutex mutex_;
  std::weak_ptr<StreamCall> stream_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_STREAM_WAKER_H_
