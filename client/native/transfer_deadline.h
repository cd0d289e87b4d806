// SPDX-License-Identifier: Apache-2.0
//
// Bounds the time that a capture takes beyond its recording.
#ifndef CLIENT_NATIVE_TRANSFER_DEADLINE_H_
#define CLIENT_NATIVE_TRANSFER_DEADLINE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/time/time.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/strand.h"
#include "client/rpc/strand_timer.h"

namespace jobscope {

// The deadline by which the trace of one worker must have arrived: a timeout after the end of the
// recording; each 64 KiB received extend it to a whole timeout from then. Not thread-safe: used on
// `strand`. `owner` owns `strand` and this.
class TransferDeadline {
 public:
  // Runs `expired` on the strand at the deadline, unless Stop is called before.
  TransferDeadline(uint64_t planned_end_ns, absl::Duration timeout, CallThreads* threads,
                   Strand* strand, const std::weak_ptr<void>& owner, std::function<void()> expired);

  // The recording ends now, before its planned end.
  void OnFinish();
  // `bytes`: all that have been received.
  void OnReceived(uint64_t bytes);
  // Call it when the deadline has expired for another reason than the worker: the next OnReceived
  // grants a whole timeout.
  void Postpone() { postponed_ = true; }
  void Stop() { timer_.Stop(); }

 private:
  void Set(uint64_t deadline_ns);
  void OnTimer();

  const uint64_t timeout_ns_;
  const std::function<void()> expired_;
  uint64_t deadline_ns_ = 0;
  uint64_t bytes_ = 0;  // received when the deadline was last extended
  bool postponed_ = false;
  StrandTimer timer_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_TRANSFER_DEADLINE_H_
