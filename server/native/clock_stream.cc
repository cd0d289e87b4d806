// SPDX-License-Identifier: Apache-2.0
#include "server/native/clock_stream.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock/clock.h"
#include "rpc/server_ended.h"
#include "server/rpc/raw_message.h"

namespace jobscope {

ClockStream::ClockStream(CallRegistry* registry, grpc::CallbackServerContext* context,
                         const NativeCaptureLimits& limits)
    : StreamCall(registry, "jobscope.v1.Profiler/SyncClock", context),
      idle_(limits.clock_idle),
      max_pings_(limits.pings) {}

StreamCall::Reactor* ClockStream::Start(CallRegistry* registry,
                                        grpc::CallbackServerContext* context,
                                        const NativeCaptureLimits& limits) {
  const std::shared_ptr<ClockStream> stream(new ClockStream(registry, context, limits));
  stream->TickEvery(stream->idle_);
  return stream->Begin();
}

void ClockStream::OnMessage(const grpc::ByteBuffer& message, uint64_t received_ns) {
  v1::ClockPing ping;
  if (auto status = ParseRequest(message, &ping); !status.ok()) {
    Finish(std::move(status));
    return;
  }
  if (++pings_ > max_pings_) {
    Finish(absl::ResourceExhaustedError(
        absl::StrCat("a stream of clock pings has at most ", max_pings_, ": open another one")));
    return;
  }
  ping_ = std::move(ping);
  received_ns_ = received_ns;
}

bool ClockStream::NextMessage(grpc::ByteBuffer* message) {
  if (!ping_.has_value()) return false;
  v1::ClockPong pong;
  pong.set_number(ping_->number());
  pong.set_received_monotonic_ns(received_ns_);
  ping_.reset();
  sending_ = true;
  pong.set_realtime_ns(static_cast<uint64_t>(RealtimeNs()));
  pong.set_sent_monotonic_ns(WorkerMonotonicNs());
  WriteResponse(pong, message);
  return true;
}

void ClockStream::OnTick() {
  if (pings_ == pings_at_tick_) {
    Finish(absl::DeadlineExceededError(
        absl::StrCat("no clock ping came for ", absl::FormatDuration(idle_))));
  }
  pings_at_tick_ = pings_;
}

void ClockStream::OnServerEnds() { Finish(ServerEnded()); }

std::string ClockStream::Outcome() const { return absl::StrCat(pings_, " pings"); }

}  // namespace jobscope
