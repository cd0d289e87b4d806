// SPDX-License-Identifier: Apache-2.0
#include "client/native/transfer_deadline.h"

#include <algorithm>
#include <utility>

#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// A link that carries less within a whole timeout counts as dead.
constexpr uint64_t kExtendingBytes = 64 << 10;

}  // namespace

TransferDeadline::TransferDeadline(uint64_t planned_end_ns, absl::Duration timeout,
                                   CallThreads* threads, Strand* strand,
                                   const std::weak_ptr<void>& owner, std::function<void()> expired)
    : timeout_ns_(DurationNs(timeout)),
      expired_(std::move(expired)),
      timer_(threads, strand, owner) {
  Set(planned_end_ns + timeout_ns_);
}

void TransferDeadline::OnFinish() { Set(std::min(deadline_ns_, MonotonicNow() + timeout_ns_)); }

void TransferDeadline::OnReceived(uint64_t bytes) {
  const bool extended = bytes >= bytes_ + kExtendingBytes;
  if (extended) bytes_ = bytes;
  if (!std::exchange(postponed_, false) && !extended) return;
  Set(std::max(deadline_ns_, MonotonicNow() + timeout_ns_));
}

void TransferDeadline::Set(uint64_t deadline_ns) {
  deadline_ns_ = deadline_ns;
  timer_.StartBy(deadline_ns_, [this] { OnTimer(); });
}

void TransferDeadline::OnTimer() {
  if (MonotonicNow() < deadline_ns_) {
    Set(deadline_ns_);  // extended since the timer was started
  } else {
    expired_();
  }
}

}  // namespace jobscope
