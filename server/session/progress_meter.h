// SPDX-License-Identifier: Apache-2.0
//
// Measures the progress of a session, for any thread.
#ifndef SERVER_SESSION_PROGRESS_METER_H_
#define SERVER_SESSION_PROGRESS_METER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "collectors/collector.h"
#include "common/run/session_state.h"
#include "common/sync/mutex.h"
#include "common/xspace/segment/store.h"
#include "server/session/session_callbacks.h"

namespace jobscope {

// Thread-safe. The session sets the sources; any thread reads.
class ProgressMeter {
 public:
  explicit ProgressMeter(std::shared_ptr<xspace::Store> store) : store_(std::move(store)) {}

  void SetStore(const std::shared_ptr<xspace::Store>& store);
  // Those that take part. They must outlive the meter.
  void SetCollectors(std::vector<Collector*> collectors);
  // From now on the losses are known exactly: the collectors are not asked any more.
  void SetLost(uint64_t lost);

  SessionProgress Read(SessionPhase phase) const;

 private:
  mutable Mutex mutex_;
  std::shared_ptr<xspace::Store> store_ ABSL_GUARDED_BY(mutex_);
  std::vector<Collector*> collectors_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // SERVER_SESSION_PROGRESS_METER_H_
