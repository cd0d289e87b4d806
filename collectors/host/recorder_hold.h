// SPDX-License-Identifier: Apache-2.0
//
// Holds what one session has of the recorder, and gives it back.
#ifndef COLLECTORS_HOST_RECORDER_HOLD_H_
#define COLLECTORS_HOST_RECORDER_HOLD_H_

#include <cstdint>

#include "absl/time/time.h"
#include "collectors/host/encoding/reader.h"
#include "common/clock/monotonic.h"
#include "common/clock/tick_clock.h"

namespace jobscope::host {

// The session's bits in the recorder's mask, and the rings of threads that end meanwhile. Not
// thread-safe.
class RecorderHold {
 public:
  // `ticks` must outlive this.
  RecorderHold(const Reader* reader, const TickClock* ticks, uint32_t bits)
      : reader_(reader), ticks_(ticks), bits_(bits) {}
  ~RecorderHold() { Release(); }
  RecorderHold(const RecorderHold&) = delete;
  RecorderHold& operator=(const RecorderHold&) = delete;

  uint32_t bits() const { return bits_; }
  // Since when recording has been complete; 0: it is not, or it has ended.
  uint64_t since_ticks() const { return since_ticks_; }

  // From now on, the rings of threads that end wait for the session.
  void HoldRings() {
    held_ = true;
    reader_->hold_ended(1);
  }
  void Record() {
    held_ = true;
    reader_->set_mask(JOBSCOPE_HOLDER_SESSION, bits_);
    if (since_ticks_ == 0) BeginAnew();
  }
  // Recording is complete only from now on. Also for steps, whose trigger sets the bits.
  void BeginAnew() {
    held_ = true;
    since_ticks_ = ticks_->Now();
  }
  // Records before the session's start is commanded.
  void RecordAhead(absl::Duration limit) {
    ahead_until_ns_ = MonotonicNow() + DurationNs(limit);
    HoldRings();
    Record();
  }
  // Returns how much is left of that limit.
  absl::Duration AheadLeft() const {
    return absl::Nanoseconds(static_cast<int64_t>(ahead_until_ns_ - MonotonicNow()));
  }

  // Records no more; the rings still wait.
  void StopRecording() { reader_->set_mask(JOBSCOPE_HOLDER_SESSION, 0); }
  void Release() {
    if (!held_) return;
    held_ = false;
    StopRecording();
    reader_->hold_ended(0);
    since_ticks_ = 0;
  }

 private:
  const Reader* const reader_;
  const TickClock* const ticks_;
  const uint32_t bits_;
  bool held_ = false;  // there is something to release
  uint64_t since_ticks_ = 0;
  uint64_t ahead_until_ns_ = 0;  // MONOTONIC
};

}  // namespace jobscope::host

#endif  // COLLECTORS_HOST_RECORDER_HOLD_H_
