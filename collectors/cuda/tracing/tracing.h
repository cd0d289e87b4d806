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

// One attachment to CUPTI, from Begin to End. Every call that may hang goes through a detached
// caller; whoever gives up on one calls Abandon: the caller then undoes what was done as soon
// as the call returns. Belongs to the collector's thread.
class Tracing {
 public:
  using Options = TracingOptions;

  Tracing(const CuptiApi* api, const Options& options, std::shared_ptr<DetachedCaller> calls);
  ~Tracing();
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;

  // Subscribes, registers the buffers, enables the kinds of records. A kind that this CUPTI does
  // not know becomes a warning; kernels are needed.
  absl::Status Begin(absl::Duration timeout);
  // Asks CUPTI for the buffers whose work is done; returns at once.
  void FlushSoon();
  // For how long the call that runs has; zero: none runs.
  absl::Duration busy_for() const;
  // The same, and waits. False: no answer in time.
  bool Flush(absl::Duration timeout);
  // Forgets what CUPTI counted as dropped until now.
  bool ForgetDropped(absl::Duration timeout);
  // Takes all records by force, disables all kinds, and reads what was dropped. False: no answer in
  // time.
  bool End(absl::Duration timeout);
  // After End: unsubscribes, and with `finalize` takes CUPTI out of the process, if a call into
  // CUDA returns within `wait` after which nothing is in flight. False: no answer in time.
  bool Leave(bool finalize, absl::Duration wait, absl::Duration timeout);
  void Abandon();

  uint64_t dropped() const;  // after End
  bool finalized() const;    // after Leave: CUPTI is out of the process
  bool subscribed() const;   // false: somebody else is, and tracing goes on without
  // Why CUPTI gave up by itself; empty: it did not.
  std::string FatalError() const;
  // What went wrong without ending it; and what CUPTI itself reported.
  std::vector<std::string> TakeWarnings();
  // "cuptiActivityFlushAll did not return in time".
  std::string HangReason() const;

 private:
  bool Run(absl::Duration timeout, const std::function<void(Attachment*)>& call);

  const std::shared_ptr<DetachedCaller> calls_;
  // Shared with the call that runs, which may outlive this object.
  const std::shared_ptr<Attachment> attachment_;
  bool attached_ = false;  // as far as is known
  absl::Time call_posted_ = absl::InfinitePast();
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_TRACING_H_
