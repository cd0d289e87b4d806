// SPDX-License-Identifier: Apache-2.0
#include "client/native/clock_burst.h"

#include <optional>
#include <utility>

#include "client/native/wire/native_messages.h"
#include "client/rpc/unary_calls.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"

namespace jobscope {

std::shared_ptr<ClockBurst> ClockBurst::Start(const std::shared_ptr<grpc::Channel>& channel,
                                              absl::Duration timeout, CallThreads* threads,
                                              WorkerClient::ClockDone done) {
  // No make_shared: the constructor is private.
  std::shared_ptr<ClockBurst> burst(new ClockBurst(std::move(done)));
  NativeStream::Events events;
  events.message = [burst](grpc::ByteBuffer* message) {
    const uint64_t received_ns = MonotonicNow();
    burst->OnPong(received_ns, message);
  };
  events.done = [burst](const grpc::Status& status) { burst->OnDone(status); };
  const absl::MutexLock lock(&burst->mutex_);
  burst->stream_ =
      NativeStream::Start(channel, kSyncClockMethod, timeout, threads, std::move(events));
  burst->Ping();
  return burst;
}

void ClockBurst::Cancel() {
  const absl::MutexLock lock(&mutex_);
  if (stream_ != nullptr) stream_->Cancel();
}

void ClockBurst::Ping() {
  ++pings_;
  stream_->Read();
  const std::string ping = PingBytes(pings_);
  sent_ns_ = MonotonicNow();
  stream_->Write(ping);
}

void ClockBurst::OnPong(uint64_t received_ns, grpc::ByteBuffer* message) {
  v1::ClockPong pong;
  const bool readable = ParseSmall(*message, &pong);
  WorkerClient::ClockDone done;
  std::optional<ClockEstimate> estimate;
  {
    const absl::MutexLock lock(&mutex_);
    if (!Take(readable ? &pong : nullptr, received_ns)) return;
    done = std::exchange(done_, nullptr);
    estimate = sync_.estimate();
  }
  // Does not wait for the worker to end its side.
  done(grpc::Status::OK, estimate);
}

bool ClockBurst::Take(const v1::ClockPong* pong, uint64_t received_ns) {
  if (pong == nullptr || pong->number() != pings_) {
    bad_answer_ = true;
    stream_->Cancel();
    return false;
  }
  ClockExchange exchange;
  exchange.sent_ns = sent_ns_;
  exchange.worker_received_ns = pong->received_monotonic_ns();
  exchange.worker_sent_ns = pong->sent_monotonic_ns();
  exchange.received_ns = received_ns;
  exchange.worker_realtime_ns = static_cast<int64_t>(pong->realtime_ns());
  // REALTIME at `received_ns`: the current time minus the time since.
  const int64_t realtime_ns = RealtimeNs();
  exchange.realtime_ns = realtime_ns - static_cast<int64_t>(MonotonicNow() - received_ns);
  sync_.Add(exchange);
  if (!sync_.Enough() && pings_ < ClockSync::kMaxExchanges) {
    Ping();
    return false;
  }
  stream_->Drain();
  return sync_.estimate().has_value();
}

void ClockBurst::OnDone(const grpc::Status& status) {
  WorkerClient::ClockDone done;
  std::optional<ClockEstimate> estimate;
  bool bad_answer = false;
  {
    const absl::MutexLock lock(&mutex_);
    // The stream's events own this.
    stream_.reset();
    done = std::exchange(done_, nullptr);
    estimate = sync_.estimate();
    bad_answer = bad_answer_;
  }
  if (!done) return;
  if (estimate.has_value()) {
    done(grpc::Status::OK, estimate);
  } else if (bad_answer) {
    done(grpc::Status(grpc::StatusCode::INTERNAL, "the worker's answers to pings cannot be parsed"),
         std::nullopt);
  } else if (status.ok()) {
    done(grpc::Status(
             grpc::StatusCode::INTERNAL,
             "the worker's clock is implausible: its answers take longer than the round trip"),
         std::nullopt);
  } else {
    done(status, std::nullopt);
  }
}

}  // namespace jobscope
