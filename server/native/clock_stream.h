// SPDX-License-Identifier: Apache-2.0
//
// Implements jobscope.v1.Profiler/SyncClock: reads this worker's clocks.
#ifndef SERVER_NATIVE_CLOCK_STREAM_H_
#define SERVER_NATIVE_CLOCK_STREAM_H_

#include <cstdint>
#include <optional>
#include <string>

#include "jobscope/v1/profiler.pb.h"
#include "server/native/native_captures.h"
#include "server/rpc/stream_call.h"

namespace jobscope {

// Sends one pong for each ping. Reads the next ping only after the pong is written, so that `sent`
// does not include the wait for an earlier pong.
class ClockStream final : public StreamCall {
 public:
  static Reactor* Start(CallRegistry* registry, grpc::CallbackServerContext* context,
                        const NativeCaptureLimits& limits);

 private:
  ClockStream(CallRegistry* registry, grpc::CallbackServerContext* context,
              const NativeCaptureLimits& limits);

  void OnMessage(const grpc::ByteBuffer& message, uint64_t received_ns) override;
  bool WantsMessage() const override { return !ping_.has_value() && !sending_; }
  bool NextMessage(grpc::ByteBuffer* message) override;
  void OnSent() override { sending_ = false; }
  void OnClientClosed() override { Finish(absl::OkStatus()); }
  void OnTick() override;
  void OnServerEnds() override;
  std::string Outcome() const override;

  const absl::Duration idle_;
  const uint64_t max_pings_;
  std::optional<v1::ClockPing> ping_;  // not answered yet
  uint64_t received_ns_ = 0;
  bool sending_ = false;
  uint64_t pings_ = 0;
  uint64_t pings_at_tick_ = 0;
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_CLOCK_STREAM_H_
