// SPDX-License-Identifier: Apache-2.0
//
// Runs one bidirectional stream of raw messages, on the client's own completion queue.
#ifndef CLIENT_NATIVE_NATIVE_STREAM_H_
#define CLIENT_NATIVE_NATIVE_STREAM_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/native/stream_operations.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/completion.h"

namespace jobscope {

// Reads and writes messages in order. Thread-safe. Owns itself until it is done: when the worker
// ends it, the connection breaks, or it was cancelled. The end is detected by reading: drain or
// cancel the stream to receive no more messages.
class NativeStream : public std::enable_shared_from_this<NativeStream> {
 public:
  // Both run on the threads of `CallThreads`, must not block, and may use the stream.
  struct Events {
    // Runs once for each Read, unless the stream ended. The buffer may be swapped out.
    std::function<void(grpc::ByteBuffer* message)> message;
    // Runs once, last. OK: the worker closed the stream.
    std::function<void(const grpc::Status& status)> done;
  };

  // `method` is a path. Never waits for a connection: ends with UNAVAILABLE if none can be made.
  // Ends with DEADLINE_EXCEEDED after `timeout`.
  static std::shared_ptr<NativeStream> Start(const std::shared_ptr<grpc::Channel>& channel,
                                             const char* method, absl::Duration timeout,
                                             CallThreads* threads, Events events);

  // Sends messages in order; discards them after the end.
  void Write(const std::string& message);
  // Reads the next message; no other Read may be in progress.
  void Read();
  // Writes nothing more, and discards received messages until the worker closes.
  void Drain();
  // Ends the stream soon, with CANCELLED; discards received messages.
  void Cancel();

 private:
  // An operation of the stream in the queue.
  class Tag : public Completion {
   public:
    using Handler = void (NativeStream::*)(bool ok);
    Tag(NativeStream* stream, Handler handler) : stream_(stream), handler_(handler) {}
    void OnDone(bool ok) override { (stream_->*handler_)(ok); }
    void* AsTag() { return static_cast<Completion*>(this); }

   private:
    NativeStream* const stream_;
    const Handler handler_;
  };

  NativeStream(CallThreads* threads, Events events);
  void OnStarted(bool ok);
  void OnRead(bool ok);
  void OnWritten(bool ok);
  void OnFinished(bool ok);
  // Starts gRPC's next operations.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Decrements the number of operations. Release the result outside of the lock.
  std::shared_ptr<NativeStream> Leave() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CallThreads::Lease lease_;
  Tag start_tag_{this, &NativeStream::OnStarted};
  Tag read_tag_{this, &NativeStream::OnRead};
  Tag write_tag_{this, &NativeStream::OnWritten};
  Tag finish_tag_{this, &NativeStream::OnFinished};
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer message_;  // owned by gRPC during a read
  grpc::Status status_;       // likewise during the finish

  absl::Mutex mutex_;
  Events events_ ABSL_GUARDED_BY(mutex_);
  ReadControl reads_ ABSL_GUARDED_BY(mutex_);
  WriteQueue writes_ ABSL_GUARDED_BY(mutex_);
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool finishing_ ABSL_GUARDED_BY(mutex_) = false;
  int operations_ ABSL_GUARDED_BY(mutex_) = 0;  // in the queue, or being handled
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<NativeStream> self_ ABSL_GUARDED_BY(mutex_);  // until it is done
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_NATIVE_STREAM_H_
