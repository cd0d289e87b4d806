// SPDX-License-Identifier: Apache-2.0
//
// The calls into CUPTI of one session.
#ifndef COLLECTORS_CUDA_TRACING_ATTACHMENT_H_
#define COLLECTORS_CUDA_TRACING_ATTACHMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "collectors/cuda/libraries/cupti_api.h"

namespace jobscope::cuda {

struct TracingOptions {
  bool whole_graphs = false;    // one record per CUDA graph instead of one per node
  bool unified_memory = false;  // page faults and migrations: costs the job
  int driver_version = 0;
  // Cap of the memory that CUPTI takes on the GPU, of each context: its own limit is some 800 MB of
  // each.
  uint64_t device_buffer_bytes = uint64_t{64} << 20;
};

// Each of these may hang: Tracing runs them on a thread of their own, and gives up on them. Belongs
// to whoever runs them, one after the other; `call`, `abandoned` and subscribed() may be read by
// anybody.
class Attachment {
 public:
  Attachment(const CuptiApi* api, const TracingOptions& options) : api_(api), options_(options) {}
  Attachment(const Attachment&) = delete;
  Attachment& operator=(const Attachment&) = delete;

  // Subscribes, registers the buffers, enables the kinds of records; see status().
  void Begin();
  // Asks for the buffers whose work is done; `forced`: for all of them.
  void Flush(bool forced);
  // Counts what CUPTI has dropped until now.
  void CountDropped();
  void ForgetDropped();
  // Takes what there is by force while tracing is on, so that work in flight keeps what is known of
  // it; then disables all kinds, and takes what has come in between.
  void End();
  // Unsubscribes, and with `finalize` takes CUPTI out of the process, if a call into CUDA returns
  // within `wait` after which nothing is in flight.
  void Leave(bool finalize, absl::Duration wait);
  // After a failure, or when nobody waits any more.
  void Undo();

  const absl::Status& status() const { return status_; }
  uint64_t dropped() const { return dropped_; }
  bool finalized() const { return finalized_; }
  bool subscribed() const { return subscribed_; }
  std::vector<std::string> TakeWarnings();

  std::atomic<bool> abandoned{false};
  std::atomic<const char*> call{""};  // the one that runs, or ran last

 private:
  std::string Failure(const char* name, CuptiResult result, std::string_view owner = {}) const;
  // The name of whoever is subscribed, where CUPTI tells it.
  std::string Owner();
  // False: there will be no GPU part; status() says why.
  bool Subscribe();
  // Somebody else is subscribed. True: tracing works without.
  bool GoWithoutSubscription(CuptiResult result);
  void SetAttributes();
  void RestoreAttributes();
  void EnableUnifiedMemory();
  bool Enable(uint32_t kind, const char* what);
  void QuietNoisyCalls() const;
  void Disable();
  void Unsubscribe();

  const CuptiApi* const api_;
  const TracingOptions options_;
  absl::Status status_;
  Subscriber subscriber_ = nullptr;
  std::atomic<bool> subscribed_{false};
  std::vector<uint32_t> enabled_;
  std::optional<size_t> own_pool_limit_;  // CUPTI's, before we lowered it
  std::vector<std::string> warnings_;
  uint64_t dropped_ = 0;
  bool finalized_ = false;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_TRACING_ATTACHMENT_H_
