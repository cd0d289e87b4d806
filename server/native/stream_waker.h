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

// Thread-safe. An object of its own with a lock of its own, because a store wakes it with its lock
// held, maybe after the capture is gone.
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
