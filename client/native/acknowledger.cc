// SPDX-License-Identifier: Apache-2.0
#include "client/native/acknowledger.h"

#include "client/native/wire/native_messages.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// An acknowledgement lets the worker free items; one per message would cause as many packets as the
// items.
constexpr uint64_t kAckBytes = 1 << 20;
constexpr absl::Duration kAckInterval = absl::Milliseconds(100);

}  // namespace

Acknowledger::Acknowledger(absl::Duration repeat, ResumableStream* stream, CallThreads* threads,
                           Strand* strand, const std::weak_ptr<void>& owner)
    : repeat_(repeat),
      stream_(stream),
      delay_timer_(threads, strand, owner),
      repeat_timer_(threads, strand, owner) {}

void Acknowledger::OnTaking() {
  taking_ = true;
  repeat_at_ns_ = MonotonicNow() + DurationNs(repeat_);
  repeat_timer_.StartBy(repeat_at_ns_, [this] { OnRepeatTimer(); });
}

void Acknowledger::OnTaken(const ReceivedItems& received) {
  taking_ = false;
  received_item_ = received.last_item;
  received_bytes_ = received.bytes;
  if (received_bytes_ - acknowledged_bytes_ >= kAckBytes) {
    Send();
  } else if (received_item_ > acknowledged_item_ && !delay_timer_.running()) {
    delay_timer_.Start(kAckInterval, [this] { Send(); });
  }
}

void Acknowledger::Send() {
  if (!stream_->connected() || received_item_ <= acknowledged_item_) return;
  stream_->Write(AckBytes(stream_->kind(), received_item_));
  acknowledged_item_ = received_item_;
  acknowledged_bytes_ = received_bytes_;
  delay_timer_.Stop();
}

void Acknowledger::OnResumed() {
  acknowledged_item_ = received_item_;
  acknowledged_bytes_ = received_bytes_;
}

void Acknowledger::Stop() {
  delay_timer_.Stop();
  repeat_timer_.Stop();
}

// The timer keeps running when the disk is done, so that it is rarely started: most messages take
// much less time.
void Acknowledger::OnRepeatTimer() {
  if (!taking_) return;
  if (MonotonicNow() >= repeat_at_ns_) {
    stream_->Write(AckBytes(stream_->kind(), acknowledged_item_));
    repeat_at_ns_ = MonotonicNow() + DurationNs(repeat_);
  }
  repeat_timer_.StartBy(repeat_at_ns_, [this] { OnRepeatTimer(); });
}

}  // namespace jobscope
