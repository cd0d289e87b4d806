// SPDX-License-Identifier: Apache-2.0
//
// Streams and what comes over them. What happens when one is lost, and how it all ends:
// streamed_capture_end.cc.
#include "client/native/streamed_capture.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/clock/monotonic.h"
#include "client/wire/capture_message.h"
#include "common/clock/clock.h"
#include "jobscope/v1/profiler.pb.h"

namespace jobscope {
namespace {

// An acknowledgement lets the worker free what it holds; one per message would be as many packets
// as the items take.
constexpr uint64_t kAckBytes = 1 << 20;
constexpr absl::Duration kAckInterval = absl::Milliseconds(100);

// Workers tell their progress every 200 ms. From one that does so without a pause most is left out:
// whoever listens may be slower than the network.
constexpr uint64_t kMinProgressNs = 20'000'000;

// All messages but those of items are far below this.
constexpr size_t kMaxSmallMessageBytes = 64 << 10;
// CaptureResponse.items and .chunk, as the first field.
constexpr int kItemsTag = (static_cast<int>(MessageKind::kItems) << 3) | 2;
constexpr int kChunkTag = (static_cast<int>(MessageKind::kChunk) << 3) | 2;

// What puts off the end of a transfer: less than this within a whole timeout is no living link.
constexpr uint64_t kDeadlineBytes = 64 << 10;

template <typename Message>
bool Parse(std::string_view bytes, Message* message) {
  return message->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

grpc::Status Fault(absl::string_view text) {
  return grpc::Status(grpc::StatusCode::INTERNAL, std::string(text));
}

// Absent: of an older worker, or nonsense.
std::optional<ClockEstimate> ArmClock(const v1::Armed& armed, uint64_t sent_ns) {
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

}  // namespace

StreamedCapture::StreamedCapture(StreamedCaptureOptions options, CallThreads* threads,
                                 WritePool* disk)
    : lease_(threads),
      options_(std::move(options)),
      threads_(threads),
      disk_(disk),
      stall_(options_.timeouts.stall),
      random_(static_cast<uint32_t>(MonotonicNow())) {
  ResetBackoff();
}

StreamedCapture::~StreamedCapture() { StopTimers(); }

void StreamedCapture::Arm(std::shared_ptr<grpc::Channel> channel, const ArmCall& call,
                          WorkerEvents events) {
  strand_.Post(
      [self = shared_from_this(), channel = std::move(channel), call,
       events = std::move(events)]() mutable { self->DoArm(channel, call, std::move(events)); });
}

void StreamedCapture::Start(const StartCall& call) {
  strand_.Post([self = shared_from_this(), call] { self->DoStart(call); });
}

void StreamedCapture::Finish() {
  strand_.Post([self = shared_from_this()] { self->DoFinish(); });
}

void StreamedCapture::Cancel() {
  strand_.Post([self = shared_from_this()] { self->DoCancel(); });
}

void StreamedCapture::DoArm(const std::shared_ptr<grpc::Channel>& channel, const ArmCall& call,
                            WorkerEvents events) {
  state_ = State::kArming;
  events_ = std::move(events);
  arm_deadline_ns_ = In(call.timeout);
  const std::string message = ArmBytes(call);
  arm_sent_ns_ = MonotonicNow();
  Open(channel, ItemStream::kCapture, message);
}

void StreamedCapture::DoStart(const StartCall& call) {
  if (state_ != State::kArmed) return;  // it ended meanwhile, and said so
  state_ = State::kRecording;
  start_ = call;
  if (!call.clock.has_value()) start_.start_monotonic_ns = MonotonicNow();
  planned_end_ns_ = start_.start_monotonic_ns + ToNs(call.duration);
  last_deadline_ns_ = planned_end_ns_ + ToNs(call.transfer);
  receiver_ = std::make_shared<ItemReceiver>(options_.spool_directory, options_.max_trace_bytes,
                                             options_.receive_limits);
  stream_->Write(StartBytes(call));
  Watch();
}

void StreamedCapture::Open(const std::shared_ptr<grpc::Channel>& channel, ItemStream kind,
                           const std::string& first_message) {
  const uint64_t generation = ++generation_;
  kind_ = kind;
  NativeStream::Events events;
  events.message = [self = shared_from_this(), generation](grpc::ByteBuffer* message) {
    const auto held = std::make_shared<grpc::ByteBuffer>();
    held->Swap(message);
    self->strand_.Post([self, generation, held] { self->OnMessage(generation, held); });
  };
  events.done = [self = shared_from_this(), generation](const grpc::Status& status) {
    self->strand_.Post([self, generation, status] { self->OnStreamDone(generation, status); });
  };
  stream_ =
      NativeStream::Start(channel, kind == ItemStream::kCapture ? kCaptureMethod : kFetchMethod,
                          absl::InfiniteDuration(), threads_, std::move(events));
  stream_->Write(first_message);
  Read();
}

void StreamedCapture::Read() {
  reading_ = true;
  heard_ns_ = MonotonicNow();
  stream_->Read();
  Watch();
}

void StreamedCapture::OnMessage(uint64_t generation,
                                const std::shared_ptr<grpc::ByteBuffer>& message) {
  if (generation != generation_ || state_ == State::kOver) return;
  reading_ = false;
  OnHeard();
  const int first_byte = FirstByte(*message);
  if (first_byte == kItemsTag || first_byte == kChunkTag) {
    TakeItems(message);
  } else if (message->Length() > kMaxSmallMessageBytes) {
    Break(Fault("the worker sent a message that is too large"), /*fault=*/true);
  } else {
    Dispatch(Join(*message));
  }
  // Unless the disk has to do first, or that was the end.
  if (generation == generation_ && state_ != State::kOver && !taking_) Read();
}

void StreamedCapture::Dispatch(const std::string& bytes) {
  const absl::StatusOr<CaptureMessage> message = ReadCaptureMessage(bytes);
  if (!message.ok()) {
    Break(Fault(message.status().message()), /*fault=*/true);
    return;
  }
  bool readable = true;
  switch (message->kind) {
    case MessageKind::kArmed:
      readable = OnArmed(message->bytes);
      break;
    case MessageKind::kStarted: {
      v1::Started started;
      readable = Parse(message->bytes, &started);
      if (readable && state_ == State::kRecording && !std::exchange(started_told_, true)) {
        events_.started(std::move(started));
      }
      break;
    }
    case MessageKind::kProgress: {
      v1::Progress progress;
      readable = Parse(message->bytes, &progress);
      const uint64_t now_ns = MonotonicNow();
      if (readable && state_ != State::kArming && now_ns >= progress_ns_ + kMinProgressNs) {
        progress_ns_ = now_ns;
        events_.progress(std::move(progress));
      }
      break;
    }
    case MessageKind::kItems:
    case MessageKind::kChunk:
      // Behind a field that we do not know: no worker does so.
      readable = false;
      break;
    case MessageKind::kEnded:
      readable = OnEnded(message->bytes);
      break;
    case MessageKind::kNone:
      break;  // of a newer worker
  }
  if (!readable) Break(Fault("the worker sent a message that cannot be read"), /*fault=*/true);
}

bool StreamedCapture::OnArmed(std::string_view bytes) {
  v1::Armed armed;
  if (!Parse(bytes, &armed)) return false;
  if (state_ != State::kArming) return true;
  state_ = State::kArmed;
  capture_key_ = armed.capture_key();
  arm_clock_ = ArmClock(armed, arm_sent_ns_);
  events_.armed(grpc::Status::OK, std::move(armed));
  return true;
}

bool StreamedCapture::OnEnded(std::string_view bytes) {
  v1::Ended ended;
  if (!Parse(bytes, &ended)) return false;
  if (ended.code() == 0 && state_ == State::kRecording) {
    announced_last_item_ = ended.last_item();
    Acknowledge();
    End(grpc::Status::OK, /*with_delivery=*/true);
    return true;
  }
  const bool known = ended.code() > 0 && ended.code() <= grpc::StatusCode::UNAUTHENTICATED;
  const grpc::Status status(
      known ? static_cast<grpc::StatusCode>(ended.code()) : grpc::StatusCode::UNKNOWN,
      ended.code() == 0 ? "the worker ended before it was told to start" : ended.reason());
  if (state_ == State::kArming) {
    EndArming(status);
  } else if (state_ == State::kRecording) {
    orderly_end_ = true;
    EndIncomplete(status);
  } else {
    End(status, /*with_delivery=*/false);
  }
  return true;
}

void StreamedCapture::TakeItems(const std::shared_ptr<grpc::ByteBuffer>& message) {
  if (state_ != State::kRecording) {
    Break(Fault("the worker sent items before it was told to start"), /*fault=*/true);
    return;
  }
  taking_ = true;
  repeat_ack_ns_ = In(options_.timeouts.repeat_ack);
  Watch();
  disk_->Run([self = shared_from_this(), generation = generation_, receiver = receiver_, message] {
    absl::Status status;
    {
      // Only as many copies as the pool has threads.
      const std::string bytes = Join(*message);
      message->Clear();
      const absl::StatusOr<CaptureMessage> items = ReadCaptureMessage(bytes);
      status = items.status();
      if (items.ok() && items->kind == MessageKind::kItems) {
        status = receiver->Take(items->bytes);
      } else if (items.ok() && items->kind == MessageKind::kChunk) {
        const absl::StatusOr<ItemChunk> chunk = ReadChunk(items->bytes);
        status = chunk.ok() ? receiver->TakeChunk(*chunk) : chunk.status();
      }
    }
    self->strand_.Post([self, generation, status] { self->OnTaken(generation, status); });
  });
}

void StreamedCapture::OnTaken(uint64_t generation, const absl::Status& status) {
  taking_ = false;
  if (state_ == State::kOver) return;
  if (!receiver_->disk_error().ok()) {
    End(grpc::Status::OK, /*with_delivery=*/true);
    return;
  }
  const bool advanced = receiver_->received().last_item > received_.last_item ||
                        receiver_->received().partial_bytes > received_.partial_bytes;
  received_ = receiver_->received();
  if (advanced) {
    faults_ = 0;
    ResetBackoff();
  }
  if (received_.bytes >= deadline_bytes_ + kDeadlineBytes) {
    deadline_bytes_ = received_.bytes;
    last_deadline_ns_ = std::max(last_deadline_ns_, In(start_.transfer));
  }
  if (end_wanted_.has_value()) {
    EndIncomplete(*end_wanted_);
    return;
  }
  if (absl::IsOutOfRange(status)) {
    orderly_end_ = true;
    EndIncomplete(
        grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, std::string(status.message())));
    return;
  }
  if (received_.limited() && !std::exchange(finish_wanted_, true)) {
    events_.note(absl::StrCat(received_.limit_reached, "; recording ends"));
    if (stream_ != nullptr) stream_->Write(FinishBytes(kind_, /*abandon=*/false));
  }
  if (received_.bytes - acknowledged_bytes_ >= kAckBytes) {
    Acknowledge();
  } else if (received_.last_item > acknowledged_item_ && ack_timer_ == nullptr) {
    ack_timer_ = After(kAckInterval, &StreamedCapture::OnAckTimer);
  }
  if (generation != generation_) return;
  if (!status.ok()) {
    Break(Fault(status.message()), /*fault=*/true);
    return;
  }
  Read();
}

void StreamedCapture::OnAckTimer() {
  ack_timer_.reset();
  if (state_ == State::kRecording) Acknowledge();
}

void StreamedCapture::Acknowledge() {
  if (stream_ == nullptr || received_.last_item <= acknowledged_item_) return;
  stream_->Write(AckBytes(kind_, received_.last_item));
  acknowledged_item_ = received_.last_item;
  acknowledged_bytes_ = received_.bytes;
  if (ack_timer_ != nullptr) ack_timer_->Cancel();
  ack_timer_.reset();
}

}  // namespace jobscope
