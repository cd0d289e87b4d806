// SPDX-License-Identifier: Apache-2.0
//
// Handles the events of one bidirectional stream of raw messages, one event at a time.
#ifndef SERVER_RPC_STREAM_CALL_H_
#define SERVER_RPC_STREAM_CALL_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/rpc/call_registry.h"
#include "server/rpc/grpc_timer.h"
#include "server/rpc/pending_events.h"

namespace jobscope {

// Serialises the events of one stream. gRPC, sessions, stores, timers and the server's end all
// signal events to a stream, from their own threads and concurrently. Each sets a bit; one thread
// at a time, always one of gRPC's, takes the bits and handles them. So the virtual functions below,
// and all calls into gRPC, run one after the other without a lock. Nothing here blocks. The object
// outlives gRPC's part of the call.
//
// At most one read and one write are in progress. A stream is finished when its last write is done,
// and cut off if the peer does not take that write within 5 s. If memory runs out in one of the
// functions below, the stream ends as if the client had disconnected, without OnLost.
class StreamCall : public OpenCall, public std::enable_shared_from_this<StreamCall> {
 public:
  using Reactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

  // Admits the stream and reads its first message. The method calls it once and must return the
  // result.
  Reactor* Begin();

  // Signals that NextMessage has a message. Thread-safe; a thread of gRPC's handles it, never this
  // call. Throws nothing: if memory runs out, the signal waits for the stream's next event.
  void Wake();
  void Abandon() override;
  const std::string& peer() const { return peer_; }
  bool Records(absl::string_view /*session_id*/, absl::string_view /*peer*/) const override {
    return false;
  }

 protected:
  StreamCall(CallRegistry* registry, absl::string_view method,
             grpc::CallbackServerContext* context);

  // A message arrived at `received_ns` on MONOTONIC.
  virtual void OnMessage(const grpc::ByteBuffer& message, uint64_t received_ns) = 0;
  // Returns whether to read the next message.
  virtual bool WantsMessage() const { return true; }
  // Returns the next message to send, if there is one. Called when no write is in progress.
  virtual bool NextMessage(grpc::ByteBuffer* message) = 0;
  // The last message has been handed to the network.
  virtual void OnSent() {}
  // The client has closed its side: no further message will arrive.
  virtual void OnClientClosed() = 0;
  // The client has disconnected. The stream is finished.
  virtual void OnLost() {}
  // Wake was called; also called while a message is being written.
  virtual void OnWake() {}
  // Runs every tick interval.
  virtual void OnTick() {}
  // The server shuts down: must call Finish.
  virtual void OnServerEnds() = 0;
  // gRPC no longer uses the call. `lost`: the status has not reached the client.
  virtual void OnDone(bool /*lost*/) {}
  // The end of the audit line.
  virtual std::string Outcome() const { return {}; }

  // Finishes the stream after the current write. The first status counts. Nothing further is read
  // or written.
  void Finish(absl::Status status);
  bool finished() const { return wanted_status_.has_value(); }
  // Runs OnTick periodically from now on, first after one interval; an infinite one stops it.
  void TickEvery(absl::Duration interval);
  // Sets the request's description for the audit line.
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

  // Sets an event, and handles all pending events unless another thread does: Post on this thread,
  // PostSoon soon on one of gRPC's.
  void Post(unsigned event);
  void PostSoon(unsigned event);
  void Run();
  void Handle(unsigned events);
  void HandleRead(unsigned events);
  void Lose();
  // Cancels the call and sends its status. Allocates nothing.
  void EndWithoutMemory();
  void Advance();
  // Throws nothing: gRPC keeps a call without a status open for ever.
  void SendStatus();
  void ArmTick();

  CallRegistry* const registry_;  // valid until gRPC's OnDone
  const std::string method_;
  const std::string peer_;
  const absl::Time started_;
  Bridge* bridge_ = nullptr;              // deletes itself in OnDone
  grpc::CallbackServerContext* context_;  // likewise invalid after OnDone
  grpc::ByteBuffer read_buffer_;          // owned by gRPC during a read
  grpc::ByteBuffer write_buffer_;         // owned by gRPC during a write
  uint64_t received_ns_ = 0;              // when it was read

  // ---- only the thread that handles events ----
  std::string description_;
  std::optional<absl::Status> wanted_status_;
  bool finish_sent_ = false;
  bool reading_ = false;
  bool read_closed_ = false;
  bool writing_ = false;
  bool lost_ = false;
  absl::Duration tick_interval_ = absl::InfiniteDuration();
  std::unique_ptr<GrpcTimer> tick_;
  std::unique_ptr<GrpcTimer> cut_off_;

  // ---- any thread ----
  PendingEvents events_;
};

}  // namespace jobscope

#endif  // SERVER_RPC_STREAM_CALL_H_
