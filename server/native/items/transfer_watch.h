// SPDX-License-Identifier: Apache-2.0
//
// Measures for how long the client of a stream has received nothing.
#ifndef SERVER_NATIVE_ITEMS_TRANSFER_WATCH_H_
#define SERVER_NATIVE_ITEMS_TRANSFER_WATCH_H_

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/time/time.h"

namespace jobscope {

// Instants are on MONOTONIC. Not thread-safe.
class TransferWatch {
 public:
  // The client has the items through `acknowledged`.
  explicit TransferWatch(uint64_t acknowledged = 0) : acknowledged_(acknowledged) {}

  void OnSent(uint64_t now_ns) { moved_ns_ = now_ns; }
  void OnAcknowledged(uint64_t through, uint64_t now_ns) {
    heard_ns_ = now_ns;
    if (through <= acknowledged_) return;
    acknowledged_ = through;
    moved_ns_ = now_ns;
  }
  // The recording is over; only the first call counts. Time before it does not: a client that
  // stalls while the worker records blocks no other.
  void OnOver(uint64_t now_ns) {
    if (!std::exchange(over_, true)) moved_ns_ = now_ns;
  }

  // Since something was last sent, or acknowledged for the first time.
  absl::Duration Stalled(uint64_t now_ns) const { return Passed(moved_ns_, now_ns); }
  // Likewise, or since the client last acknowledged anything.
  absl::Duration Silent(uint64_t now_ns) const {
    return Passed(std::max(moved_ns_, heard_ns_), now_ns);
  }

 private:
  static absl::Duration Passed(uint64_t since_ns, uint64_t now_ns) {
    return absl::Nanoseconds(static_cast<int64_t>(now_ns - since_ns));
  }

  uint64_t acknowledged_;
  uint64_t moved_ns_ = 0;
  uint64_t heard_ns_ = 0;
  bool over_ = false;
};

}  // namespace jobscope

#endif  // SERVER_NATIVE_ITEMS_TRANSFER_WATCH_H_
