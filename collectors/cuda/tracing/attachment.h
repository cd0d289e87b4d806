// SPDX-License-Identifier: Apache-2.0
//
// Makes the calls into CUPTI for one session.
#ifndef COLLECTORS_CUDA_TRACING_ATTACHMENT_H_
#define COLLECTORS_CUDA_TRACING_ATTACHMENT_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/tracing/activity_attributes.h"
#include "collectors/cuda/tracing/call_report.h"
#include "collectors/cuda/tracing/subscription.h"

namespace jobscope::cuda {

struct TracingOptions {
  bool unified_memory = false;  // page faults and migrations; slows the job down
  int driver_version = 0;
  // Cap of CUPTI's memory on the GPU per context; its own limit is about 800 MB.
  uint64_t device_buffer_bytes = uint64_t{64} << 20;
  // Empties the buffers that the pool has kept. Called on the thread of the calls.
  std::function<void()> discard_kept;
};

// Attaches CUPTI to the process and detaches it. Each function may hang: Tracing runs them on a
// thread of their own, with time limits. Only one caller at a time; `call` and `abandoned`
// may be read by any thread.
class Attachment {
 public:
  Attachment(const CuptiApi* api, const TracingOptions& options)
      : api_(api),
        options_(options),
        report_(api, options.driver_version),
        subscription_(api, &report_),
        attributes_(api, &report_) {}
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  // Subscribes, registers the buffers and enables the record kinds; see status().
  void Begin();
  // Requests the buffers whose work is done; `forced`: all of them.
  void Flush(bool forced);
  // Counts the records that CUPTI has dropped so far.
  void CountDropped();
  // Begins the window: forgets the records dropped so far, unless that is known only after `begin`,
  // an instant of SteadyNow; enables overhead records.
  void Start(absl::Time begin);
  // Disables all kinds and requests the buffers. Without `all_came`, forces a flush before, so that
  // work in flight keeps its known data, and after, for what arrived in between. A forced flush
  // while threads write records can damage them, and has crashed a process (docs/cuda.md). While
  // torch.profiler records, flushes without force and leaves its kinds to LeftKinds.
  void End(bool all_came);
  // Unsubscribes. With `finalize`, also finalizes CUPTI if within `wait` a call into CUDA returns
  // after which nothing is in flight.
  void Detach(bool finalize, absl::Duration wait);
  // Reverts everything after a failure, or when nobody waits any more.
  void Undo();

  const absl::Status& status() const { return status_; }
  uint64_t dropped() const { return dropped_; }
  bool finalized() const { return finalized_; }
  const char* call() const { return report_.call; }  // the current or last call
  std::vector<std::string> TakeWarnings();

  std::atomic<bool> abandoned{false};

 private:
  void EnableUnifiedMemory();
  bool Enable(uint32_t kind, const char* what);
  void QuietNoisyCalls() const;
  void Disable();
  // Takes from CUPTI the buffers that it holds, by force only if it still holds some after a short
  // time, and frees what their records own. Call it when the pool is idle and gives no others.
  void TakeBack();
  void FlushUntilBack();
  void Unsubscribe();
  // Returns false if CUPTI stays in the process, with a warning if that was not known before.
  bool Finalize(absl::Duration wait);
  void NoteFinalized();

  const CuptiApi* const api_;
  const TracingOptions options_;
  CallReport report_;
  Subscription subscription_;
  ActivityAttributes attributes_;
  absl::Status status_;
  std::vector<uint32_t> enabled_;
  uint64_t dropped_ = 0;
  bool finalized_ = false;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_ATTACHMENT_H_
