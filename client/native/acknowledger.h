// SPDX-License-Identifier: Apache-2.0
//
// Tells a worker which items are stored safely, so that it can free them.
#ifndef CLIENT_NATIVE_ACKNOWLEDGER_H_
#define CLIENT_NATIVE_ACKNOWLEDGER_H_

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "client/native/resumable_stream.h"
#include "client/native/spool/item_receiver.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/strand.h"
#include "client/rpc/strand_timer.h"

namespace jobscope {

// Decides when to acknowledge. Not thread-safe: used on `strand`. `owner` owns `strand`, `stream`
// and this.
class Acknowledger {
 public:
  // `repeat`: interval at which the last acknowledgement is repeated while the disk is slow.
  Acknowledger(absl::Duration repeat, ResumableStream* stream, CallThreads* threads, Strand* strand,
               const std::weak_ptr<void>& owner);

  // A message is being written to disk.
  void OnTaking();
  // The message has been written. Acknowledges it now or soon.
  void OnTaken(const ReceivedItems& received);
  // Acknowledges now.
  void Send();
  // The message that resumes a lost stream acknowledges the stored items.
  void OnResumed();
  void Stop();

 private:
  void OnRepeatTimer();

  const absl::Duration repeat_;
  ResumableStream* const stream_;
  uint64_t received_item_ = 0;
  uint64_t received_bytes_ = 0;
  uint64_t acknowledged_item_ = 0;
  uint64_t acknowledged_bytes_ = 0;
  bool taking_ = false;
  uint64_t repeat_at_ns_ = 0;  // while `taking_`
  StrandTimer delay_timer_;
  StrandTimer repeat_timer_;
};

}  // namespace jobscope

#endif  // CLIENT_NATIVE_ACKNOWLEDGER_H_
