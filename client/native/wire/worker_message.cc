// SPDX-License-Identifier: Apache-2.0
#include "client/native/wire/worker_message.h"

#include <string>
#include <string_view>

#include "client/native/wire/capture_message.h"
#include "client/native/wire/native_messages.h"
#include "common/clock/clock.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// Messages other than items are far smaller than this.
constexpr size_t kMaxSmallMessageBytes = 64 << 10;
// CaptureResponse.items and .chunk, as the first field.
constexpr int kItemsTag = (static_cast<int>(MessageKind::kItems) << 3) | 2;
constexpr int kChunkTag = (static_cast<int>(MessageKind::kChunk) << 3) | 2;

template <typename Message>
absl::StatusOr<WorkerMessage> Parse(std::string_view bytes) {
  Message message;
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return message;
  return absl::InvalidArgumentError("the worker sent a message that cannot be read");
}

}  // namespace

bool HoldsItems(const grpc::ByteBuffer& message) {
  const int first_byte = FirstByte(message);
  return first_byte == kItemsTag || first_byte == kChunkTag;
}

absl::StatusOr<WorkerMessage> ReadWorkerMessage(const grpc::ByteBuffer& message) {
  if (message.Length() > kMaxSmallMessageBytes) {
    return absl::InvalidArgumentError("the worker sent a message that is too large");
  }
  const std::string bytes = Join(message);
  const absl::StatusOr<CaptureMessage> read = ReadCaptureMessage(bytes);
  if (!read.ok()) return read.status();
  switch (read->kind) {
    case MessageKind::kArmed:
      return Parse<v1::Armed>(read->bytes);
    case MessageKind::kStarted:
      return Parse<v1::Started>(read->bytes);
    case MessageKind::kProgress:
      return Parse<v1::Progress>(read->bytes);
    case MessageKind::kEnded:
      return Parse<v1::Ended>(read->bytes);
    case MessageKind::kItems:
    case MessageKind::kChunk:
      // After an unknown field: no worker sends that.
      return absl::InvalidArgumentError("the worker sent a message that cannot be read");
    case MessageKind::kNone:
      break;
  }
  return WorkerMessage();
}

// nullopt: from an older worker, or invalid.
std::optional<ClockEstimate> ClockOf(const v1::Armed& armed, uint64_t sent_ns) {
  if (armed.sent_monotonic_ns() == 0) return std::nullopt;
  ClockExchange exchange;
  exchange.sent_ns = sent_ns;
  exchange.worker_received_ns = armed.received_monotonic_ns();
  exchange.worker_sent_ns = armed.sent_monotonic_ns();
  exchange.worker_realtime_ns = static_cast<int64_t>(armed.realtime_ns());
  exchange.received_ns = MonotonicNow();
  exchange.realtime_ns = RealtimeNs();
  ClockSync sync;
  sync.Add(exchange);
  return sync.estimate();
}

grpc::Status StatusOf(const v1::Ended& ended) {
  const bool known = ended.code() > 0 && ended.code() <= grpc::StatusCode::UNAUTHENTICATED;
  return grpc::Status(
      known ? static_cast<grpc::StatusCode>(ended.code()) : grpc::StatusCode::UNKNOWN,
      ended.code() == 0 ? "the worker ended before the start" : ended.reason());
}

}  // namespace jobscope
