// SPDX-License-Identifier: Apache-2.0
//
// Tells other threads which capture a stream delivers.
#ifndef SERVER_NATIVE_DELIVERING_CAPTURE_H_
#define SERVER_NATIVE_DELIVERING_CAPTURE_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "server/native/native_capture.h"

namespace jobscope {

// The capture of one stream from its start until the stream is finished; null: none. Thread-safe.
class DeliveringCapture {
 public:
  void Set(std::shared_ptr<NativeCapture> capture) {
    absl::MutexLock lock(&mutex_);
    capture_.swap(capture);  // the last one is released after the lock
  }
  bool exists() const {
    absl::MutexLock lock(&mutex_);
    return capture_ != nullptr;
  }
  bool Is(absl::string_view session_id, absl::string_view peer) const {
    absl::MutexLock lock(&mutex_);
    return capture_ != nullptr && capture_->session_id() == session_id && capture_->peer() == peer;
  }

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<NativeCapture> capture_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_DELIVERING_CAPTURE_H_
