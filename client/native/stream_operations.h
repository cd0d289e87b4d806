// SPDX-License-Identifier: Apache-2.0
//
// Decides when a stream reads, and what it writes next.
#ifndef CLIENT_NATIVE_STREAM_OPERATIONS_H_
#define CLIENT_NATIVE_STREAM_OPERATIONS_H_

#include <grpcpp/support/byte_buffer.h>

#include <deque>

namespace jobscope {

// Reads one message at a time, and none while the last one is being handled: a failing read ends
// the stream, whose end must be handled last. Not thread-safe.
class ReadControl {
 public:
  void Want() { wanted_ = wanted_ || !draining_; }
  // Messages from now on are read until the stream ends, and discarded.
  void Drain() {
    draining_ = true;
    wanted_ = !reading_;
  }

  // Returns whether to start a read now. OnRead ends it.
  bool Next() {
    if (!wanted_ || reading_ || handling_) return false;
    wanted_ = false;
    return reading_ = true;
  }
  // A message was read. Returns whether it is to be handled; OnHandled must follow then.
  bool OnRead() {
    reading_ = false;
    wanted_ = wanted_ || draining_;
    return handling_ = !draining_;
  }
  void OnHandled() { handling_ = false; }

 private:
  bool wanted_ = false;
  bool reading_ = false;
  bool handling_ = false;
  bool draining_ = false;
};

// Writes messages in order, then the end of our side; one operation at a time. Not thread-safe.
class WriteQueue {
 public:
  // Discards the message after Close, or after a failed write.
  void Add(grpc::ByteBuffer message) {
    if (over_ || close_wanted_) return;
    messages_.emplace_back();
    messages_.back().Swap(&message);
  }
  // The end of our side follows the messages that were added.
  void Close() { close_wanted_ = true; }

  enum class Operation { kNone, kWrite, kClose };
  // Returns the operation to start now; kWrite: of `message`. OnDone ends it.
  Operation Next(grpc::ByteBuffer* message) {
    if (writing_ || over_ || (messages_.empty() && !close_wanted_)) return Operation::kNone;
    writing_ = true;
    if (messages_.empty()) {
      over_ = true;
      return Operation::kClose;
    }
    message->Swap(&messages_.front());
    messages_.pop_front();
    return Operation::kWrite;
  }
  // `ok`: false if the stream is broken: there are no further operations.
  void OnDone(bool ok) {
    writing_ = false;
    if (ok) return;
    over_ = true;
    messages_.clear();
  }

 private:
  std::deque<grpc::ByteBuffer> messages_;
  bool writing_ = false;
  bool close_wanted_ = false;
  bool over_ = false;  // closed, or failed
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_STREAM_OPERATIONS_H_
