// SPDX-License-Identifier: Apache-2.0
//
// Implements jobscope.v1.Profiler/Capture and /Fetch: a capture's requests and responses on one
// stream.
#ifndef SERVER_NATIVE_CAPTURE_STREAM_H_
#define SERVER_NATIVE_CAPTURE_STREAM_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "jobscope/v1/profiler.pb.h"
#include "server/native/delivering_capture.h"
#include "server/native/items/item_writer.h"
#include "server/native/items/transfer_watch.h"
#include "server/native/native_capture.h"
#include "server/native/native_captures.h"
#include "server/rpc/stream_call.h"
#include "server/services/service_context.h"

namespace jobscope {

// Sends the capture's messages in order: armed, started, items and progress, ended. Keeps only what
// it has sent; all other state is the capture's. Reads the next items from the store when the last
// ones have been sent: backpressure is gRPC's own.
//
// Drops the capture of a client that breaks the order of messages: what it wants is unknown. Counts
// and ignores requests of unknown kinds: they come from newer clients.
class CaptureStream final : public StreamCall {
 public:
  static Reactor* Capture(const ServiceContext& service, std::shared_ptr<NativeCaptures> captures,
                          grpc::CallbackServerContext* context);
  static Reactor* Fetch(const ServiceContext& service, std::shared_ptr<NativeCaptures> captures,
                        grpc::CallbackServerContext* context);

  bool Records(absl::string_view session_id, absl::string_view peer) const override {
    return delivering_.Is(session_id, peer);
  }
  bool Delivers() const override { return delivering_.exists(); }

 private:
  CaptureStream(const ServiceContext& service, std::shared_ptr<NativeCaptures> captures,
                bool fetches, absl::string_view method, grpc::CallbackServerContext* context);

  void OnMessage(const grpc::ByteBuffer& message, uint64_t received_ns) override;
  bool NextMessage(grpc::ByteBuffer* message) override;
  void OnSent() override;
  void OnClientClosed() override;
  void OnLost() override;
  void OnWake() override;
  void OnTick() override;
  void OnServerEnds() override;
  void OnDone(bool lost) override;
  std::string Outcome() const override;

  absl::Status OnCaptureRequest(const grpc::ByteBuffer& message);
  absl::Status OnFetchRequest(const grpc::ByteBuffer& message);
  absl::Status OnArm(const v1::Arm& request);
  absl::Status OnStart(const v1::Start& request);
  absl::Status OnResume(const v1::Resume& request);
  absl::Status OnAck(const v1::Ack& request);
  absl::Status OnFinish(const v1::Finish& request);

  void WriteArmed(grpc::ByteBuffer* message);
  // Returns false if there are none to send yet.
  bool WriteItems(grpc::ByteBuffer* message);
  void WriteEnded(const NativeCapture::Snapshot& snapshot, grpc::ByteBuffer* message);
  // Finishes the stream once the client has everything.
  void FinishIfComplete(const NativeCapture::Snapshot& snapshot);

  const ServiceContext service_;
  const std::shared_ptr<NativeCaptures> captures_;
  const bool fetches_;
  const absl::Time deadline_;  // the caller's own

  std::shared_ptr<NativeCapture> capture_;  // null: not requested yet
  NativeCapture::StreamId id_ = 0;
  absl::Duration wanted_lookback_;
  // Times on MONOTONIC.
  uint64_t arm_received_ns_ = 0;
  uint64_t armed_ns_ = 0;  // when `armed` was sent; 0: not yet
  bool start_seen_ = false;
  bool started_sent_ = false;
  bool progress_due_ = false;
  bool items_due_ = false;      // even if they do not fill a message
  bool ended_sent_ = false;     // it may still be in transit
  bool client_closed_ = false;  // no acknowledgement will come
  bool by_steps_ = false;       // the client starts at a step, which it predicts from the progress
  uint64_t unknown_requests_ = 0;
  ItemWriter writer_;
  TransferWatch watch_;
  DeliveringCapture delivering_;
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_CAPTURE_STREAM_H_
