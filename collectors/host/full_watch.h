// SPDX-License-Identifier: Apache-2.0
//
// Measures when, and for how long, the store of a session accepted no events.
#ifndef COLLECTORS_HOST_FULL_WATCH_H_
#define COLLECTORS_HOST_FULL_WATCH_H_

#include <cstdint>
#include <optional>

#include "common/xspace/segment/item_sink.h"

namespace jobscope::host {

// Measures how long the store is full. Not thread-safe.
class FullWatch {
 public:
  explicit FullWatch(const xspace::ItemSink* sink) : sink_(sink) {}

  // Returns whether the store is full now.
  bool Look(uint64_t now_ticks) {
    const bool full = sink_->Full();
    if (full == full_) return full;
    full_ = full;
    if (full) {
      since_ticks_ = now_ticks;
      if (!first_ticks_.has_value()) first_ticks_ = now_ticks;
    } else {
      total_ticks_ += now_ticks - since_ticks_;
    }
    return full;
  }
  // Ends the measurement with the session.
  void End(uint64_t now_ticks) {
    if (full_) total_ticks_ += now_ticks - since_ticks_;
  }

  bool full() const { return full_; }  // at the last check
  std::optional<uint64_t> first_ticks() const { return first_ticks_; }
  uint64_t total_ticks() const { return total_ticks_; }

 private:
  const xspace::ItemSink* const sink_;
  bool full_ = false;
  uint64_t since_ticks_ = 0;
  uint64_t total_ticks_ = 0;
  std::optional<uint64_t> first_ticks_;
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_FULL_WATCH_H_
