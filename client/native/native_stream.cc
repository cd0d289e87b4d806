// SPDX-License-Identifier: Apache-2.0
#include "client/native/native_stream.h"

#include <grpcpp/support/slice.h>

#include <utility>

#include "rpc/deadline.h"

namespace jobscope {

std::shared_ptr<NativeStream> NativeStream::Start(const std::shared_ptr<grpc::Channel>& channel,
                                                  const char* method, absl::Duration timeout,
                                                  CallThreads* threads, Events events) {
  // No make_shared: the constructor is private.
  std::shared_ptr<NativeStream> stream(new NativeStream(threads, std::move(events)));
  stream->context_.set_deadline(DeadlineIn(timeout));
  stream->context_.set_wait_for_ready(false);
  stream->stream_ =
      grpc::GenericStub(channel).PrepareCall(&stream->context_, method, threads->queue());
  const absl::MutexLock lock(&stream->mutex_);
  stream->self_ = stream;
  ++stream->operations_;
  stream->stream_->StartCall(stream->start_tag_.AsTag());
  return stream;
}

NativeStream::NativeStream(CallThreads* threads, Events events)
    : lease_(threads), events_(std::move(events)) {}

void NativeStream::Write(const std::string& message) {
  const grpc::Slice slice(message);
  const absl::MutexLock lock(&mutex_);
  if (write_over_ || close_wanted_ || finishing_) return;
  outgoing_.emplace_back(&slice, 1);
  Advance();
}

void NativeStream::Read() {
  const absl::MutexLock lock(&mutex_);
  if (draining_) return;
  read_wanted_ = true;
  Advance();
}

void NativeStream::Drain() {
  const absl::MutexLock lock(&mutex_);
  close_wanted_ = true;
  draining_ = true;
  read_wanted_ = !reading_;
  Advance();
}

void NativeStream::Cancel() {
  context_.TryCancel();
  const absl::MutexLock lock(&mutex_);
  // gRPC reports the end when a message is read.
  draining_ = true;
  read_wanted_ = !reading_;
  Advance();
}

void NativeStream::OnStarted(bool ok) {
  std::shared_ptr<NativeStream> last;
  const absl::MutexLock lock(&mutex_);
  if (ok) {
    started_ = true;
    Advance();
  } else {
    Finish();
  }
  last = Leave();
}

void NativeStream::OnRead(bool ok) {
  std::shared_ptr<NativeStream> last;
  grpc::ByteBuffer message;
  std::function<void(grpc::ByteBuffer*)> handler;
  {
    const absl::MutexLock lock(&mutex_);
    reading_ = false;
    if (!ok) {
      Finish();
    } else if (draining_) {
      message_.Clear();
      read_wanted_ = true;
      Advance();
    } else {
      handling_ = true;
      message.Swap(&message_);
      handler = events_.message;
    }
    if (!handling_) {
      last = Leave();
      return;
    }
  }
  handler(&message);
  const absl::MutexLock lock(&mutex_);
  handling_ = false;
  Advance();
  last = Leave();
}

void NativeStream::OnWritten(bool ok) {
  std::shared_ptr<NativeStream> last;
  const absl::MutexLock lock(&mutex_);
  writing_ = false;
  if (ok) {
    Advance();
  } else {
    // The stream is broken, which the next read reports.
    write_over_ = true;
    outgoing_.clear();
  }
  last = Leave();
}

void NativeStream::OnFinished(bool) {
  std::shared_ptr<NativeStream> last;
  Events events;
  {
    const absl::MutexLock lock(&mutex_);
    // The events may own this, and this owns them.
    std::swap(events, events_);
    done_ = true;
    last = Leave();
    if (last == nullptr) last = shared_from_this();
  }
  events.done(status_);
}

void NativeStream::Advance() {
  if (!started_ || finishing_) return;
  // Not while the last message is being handled: a failing read ends the stream, and `done` must
  // come last.
  if (read_wanted_ && !reading_ && !handling_) {
    read_wanted_ = false;
    reading_ = true;
    ++operations_;
    stream_->Read(&message_, read_tag_.AsTag());
  }
  if (writing_ || write_over_) return;
  if (!outgoing_.empty()) {
    writing_ = true;
    ++operations_;
    stream_->Write(outgoing_.front(), write_tag_.AsTag());
    outgoing_.pop_front();
  } else if (close_wanted_) {
    write_over_ = true;
    writing_ = true;
    ++operations_;
    stream_->WritesDone(write_tag_.AsTag());
  }
}

void NativeStream::Finish() {
  if (std::exchange(finishing_, true)) return;
  ++operations_;
  stream_->Finish(&status_, finish_tag_.AsTag());
}

std::shared_ptr<NativeStream> NativeStream::Leave() {
  // Between two messages the queue may be empty although the stream continues.
  return --operations_ == 0 && done_ ? std::move(self_) : nullptr;
}

}  // namespace jobscope
