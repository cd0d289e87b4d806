// SPDX-License-Identifier: Apache-2.0
//
// Enables and disables CUPTI's activity tracing, by calls that may hang.
#ifndef COLLECTORS_CUDA_TRACING_TRACING_H_
#define COLLECTORS_CUDA_TRACING_TRACING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/cuda/libraries/cupti_api.h"
#include "collectors/cuda/tracing/attachment.h"
#include "common/threads/detached_caller.h"

namespace jobscope::cuda {

// Controls one attachment to CUPTI, from Begin to End. Runs every call that may hang on a detached
// caller. To stop waiting for a call, use Abandon: the detached caller then reverts the call once
// it returns. Belongs to the collector's thread.
class Tracing {
 public:
  using Options = TracingOptions;

  Tracing(const CuptiApi* api, const Options& options, std::shared_ptr<DetachedCaller> calls);
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  // Subscribes, registers the buffers and enables the record kinds. A kind unknown to this CUPTI
  // becomes a warning, except kernels, which are required.
  absl::Status Begin(absl::Duration timeout);
  // Requests the buffers whose work is done. Returns at once.
  void FlushSoon();
  // Returns how long the current call has been running; zero: none.
  absl::Duration busy_for() const;
  // Does the same as FlushSoon and waits. False: no answer in time.
  bool Flush(absl::Duration timeout);
  // Begins the window once the pool records: see Attachment::Start. False: no answer in time.
  bool Start(absl::Duration timeout);
  // Disables all kinds and counts dropped records: see Attachment::End. False: no answer in time.
  bool End(bool all_came, absl::Duration timeout);
  // Unsubscribes after End. With `finalize`, also finalizes CUPTI if within `wait` a call into CUDA
  // returns after which nothing is in flight. False: no answer in time.
  bool Detach(bool finalize, absl::Duration wait, absl::Duration timeout);
  void Abandon();

  uint64_t dropped() const;  // after End
  bool finalized() const;    // after Detach: CUPTI is detached from the process
  // Returns the fatal error by which CUPTI detached itself; empty: there was none.
  std::string FatalError() const;
  // Returns problems that did not end tracing, and CUPTI's own reports.
  std::vector<std::string> TakeWarnings();
  // Returns "cuptiActivityFlushAll did not return in time".
  std::string HangReason() const;

 private:
  bool Run(absl::Duration timeout, const std::function<void(Attachment*)>& call);

  const std::shared_ptr<DetachedCaller> calls_;
  // Shared with the current call, which may outlive this object.
  const std::shared_ptr<Attachment> attachment_;
  bool attached_ = false;  // as far as known
  absl::Time call_posted_ = absl::InfinitePast();
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_TRACING_H_
