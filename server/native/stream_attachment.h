// SPDX-License-Identifier: Apache-2.0
//
// Tracks which stream is attached to a capture, and with which status the others end.
#ifndef SERVER_NATIVE_STREAM_ATTACHMENT_H_
#define SERVER_NATIVE_STREAM_ATTACHMENT_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/native/stream_waker.h"
#include "server/rpc/stream_call.h"

namespace jobscope {

// At most one stream is attached at a time. Not thread-safe.
class StreamAttachment {
 public:
  using Id = uint64_t;  // of one stream; never 0, and never used again

  // Keeps `waker` on the attached stream.
  explicit StreamAttachment(std::shared_ptr<StreamWaker> waker) : waker_(std::move(waker)) {}

  // Attaches a new stream, in place of the one that is attached.
  Id Attach(const std::shared_ptr<StreamCall>& stream) {
    waker_->Set(stream);
    return current_ = ++newest_;
  }
  void Detach() {
    waker_->Set(nullptr);
    current_ = 0;
  }
  // Detaches the stream, which ends with `status` when it is woken next.
  void Evict(absl::Status status) {
    SetStatusOfOthers(std::move(status));
    current_ = 0;
  }
  // Sets the status with which streams end that are not attached: why they were replaced, or that
  // the capture was evicted.
  void SetStatusOfOthers(absl::Status status) { status_of_others_ = std::move(status); }

  // Returns whether any stream is attached.
  bool any() const { return current_ != 0; }
  // Returns whether `stream` is attached.
  bool Has(Id stream) const { return current_ == stream && any(); }
  // Returns OK if `stream` is attached, otherwise the status with which it ends. Until
  // SetStatusOfOthers was called, that is ABORTED.
  absl::Status StatusOf(Id stream) const {
    if (Has(stream)) return absl::OkStatus();
    return status_of_others_.ok() ? absl::AbortedError("the capture is gone") : status_of_others_;
  }

 private:
  const std::shared_ptr<StreamWaker> waker_;
  Id current_ = 0;  // 0: none is attached
  Id newest_ = 0;
  absl::Status status_of_others_;  // OK: not set
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_STREAM_ATTACHMENT_H_
