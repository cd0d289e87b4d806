// SPDX-License-Identifier: Apache-2.0
//
// One bidirectional stream of raw messages: what happens to it is handled one thing at a time.
#ifndef SERVER_RPC_STREAM_CALL_H_
#define SERVER_RPC_STREAM_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/rpc/call_registry.h"

namespace jobscope {

// gRPC, sessions, stores, timers and the server's end all have something to say to a stream, from
// their own threads and at the same time. Each leaves its word as a bit, and one thread at a time
// takes the bits and handles them, always one of gRPC's: so the virtual functions below run one
// after the other, without a lock, and so do all calls into gRPC. Nothing here blocks. The object
// outlives gRPC's part of the call.
//
// There is at most one read and one write at a time; a stream is finished when its last write is
// done, and cut off if the peer does not take that within 5 s.
class StreamCall : public OpenCall, public std::enable_shared_from_this<StreamCall> {
 public:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

  // Admits the stream and reads its first message. Called once, by the method, which must return
  // the result.
  Reactor* Begin();

  // NextMessage has something to say. Thread-safe; handled on a thread of gRPC's, never in here.
  void Wake();
  void Abandon() override;
  const std::string& peer() const { return peer_; }
  bool Records(absl::string_view /*session_id*/, absl::string_view /*peer*/) const override {
    return false;
  }

 protected:
  StreamCall(CallRegistry* registry, absl::string_view method,
             grpc::CallbackServerContext* context);

  // A message has come, at `received_ns` on MONOTONIC.
  virtual void OnMessage(const grpc::ByteBuffer& message, uint64_t received_ns) = 0;
  // Whether the next one is to be read.
  virtual bool WantsMessage() const { return true; }
  // The next message to send, if there is one. Called when nothing is being written.
  virtual bool NextMessage(grpc::ByteBuffer* message) = 0;
  // The last one has been handed to the network.
  virtual void OnSent() {}
  // The client has closed its side: no message comes any more.
  virtual void OnClientClosed() = 0;
  // The client has gone, or the connection. The stream is finished.
  virtual void OnLost() {}
  // Somebody has called Wake; also while a message is being written.
  virtual void OnWake() {}
  // Every tick interval.
  virtual void OnTick() {}
  // The server ends: must Finish.
  virtual void OnServerEnds() = 0;
  // gRPC is done with it; `lost`: the status has not reached the client.
  virtual void OnDone(bool /*lost*/) {}
  // Ends the audit line.
  virtual std::string Outcome() const { return {}; }

  // Finishes the stream once what is being written has gone. The first status counts. Nothing is
  // read or written any more.
  void Finish(absl::Status status);
  bool finished() const { return wanted_status_.has_value(); }
  // Runs OnTick from now on; an infinite interval ends it.
  void TickEvery(absl::Duration interval);
  // What the audit line says was asked for.
  void Describe(std::string description) { description_ = std::move(description); }

 private:
  class Bridge;
  enum Event : unsigned {
    kWake = 1 << 0,
    kRead = 1 << 1,
    kReadFailed = 1 << 2,
    kWritten = 1 << 3,
    kWriteFailed = 1 << 4,
    kCancelled = 1 << 5,
    kDone = 1 << 6,
    kTick = 1 << 7,
    kServerEnds = 1 << 8,
    kCutOff = 1 << 9,
  };

  // Leaves an event, and handles all there are unless another thread does: in this thread, or soon
  // in one of gRPC's.
  void Post(unsigned event);
  void PostSoon(unsigned event);
  void Run();
  void Handle(unsigned events);
  void HandleRead(unsigned events);
  void Lose();
  void Advance();
  void ArmTick();

  CallRegistry* const registry_;  // until gRPC's OnDone
  const std::string method_;
  const std::string peer_;
  const absl::Time started_;
  Bridge* bridge_ = nullptr;              // deletes itself in OnDone
  grpc::CallbackServerContext* context_;  // likewise gone with OnDone
  grpc::ByteBuffer read_buffer_;          // of gRPC while it reads
  grpc::ByteBuffer write_buffer_;         // of gRPC while it writes
  uint64_t received_ns_ = 0;              // when it was read

  // ---- of the thread that handles events ----
  std::string description_;
  std::optional<absl::Status> wanted_status_;
  bool finish_sent_ = false;
  bool reading_ = false;
  bool read_closed_ = false;
  bool writing_ = false;
  bool lost_ = false;
  absl::Duration tick_interval_ = absl::InfiniteDuration();
  std::unique_ptr<grpc::Alarm> tick_;
  std::unique_ptr<grpc::Alarm> cut_off_;

  absl::Mutex mutex_;
  unsigned events_ ABSL_GUARDED_BY(mutex_) = 0;
  bool handling_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace jobscope

#endif  // SERVER_RPC_STREAM_CALL_H_
