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
  if (finishing_) return;
  writes_.Add(grpc::ByteBuffer(&slice, 1));
  Advance();
}

void NativeStream::Read() {
  const absl::MutexLock lock(&mutex_);
  reads_.Want();
  Advance();
}

void NativeStream::Drain() {
  const absl::MutexLock lock(&mutex_);
  writes_.Close();
  reads_.Drain();
  Advance();
}

void NativeStream::Cancel() {
  context_.TryCancel();
  const absl::MutexLock lock(&mutex_);
  // gRPC reports the end when a message is read.
  reads_.Drain();
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
    if (!ok) {
      Finish();
      last = Leave();
      return;
    }
    message.Swap(&message_);
    if (!reads_.OnRead()) {
      Advance();
      last = Leave();
      return;
    }
    handler = events_.message;
  }
  handler(&message);
  const absl::MutexLock lock(&mutex_);
  reads_.OnHandled();
  Advance();
  last = Leave();
}

void NativeStream::OnWritten(bool ok) {
  std::shared_ptr<NativeStream> last;
  const absl::MutexLock lock(&mutex_);
  writes_.OnDone(ok);  // the next read reports a broken stream
  Advance();
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
  if (reads_.Next()) {
    ++operations_;
    stream_->Read(&message_, read_tag_.AsTag());
  }
  grpc::ByteBuffer message;
  switch (writes_.Next(&message)) {
    case WriteQueue::Operation::kNone:
      break;
    case WriteQueue::Operation::kWrite:
      ++operations_;
      stream_->Write(message, write_tag_.AsTag());
      break;
    case WriteQueue::Operation::kClose:
      ++operations_;
      stream_->WritesDone(write_tag_.AsTag());
      break;
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
