// SPDX-License-Identifier: Apache-2.0
#include "server/session/progress_meter.h"

#include <utility>

namespace jobscope {

void ProgressMeter::SetStore(const std::shared_ptr<xspace::Store>& store) {
  const MutexLock lock(&mutex_);
  store_ = store;
}

void ProgressMeter::SetCollectors(std::vector<Collector*> collectors) {
  const MutexLock lock(&mutex_);
  collectors_ = std::move(collectors);
}

void ProgressMeter::SetLost(uint64_t lost) {
  const MutexLock lock(&mutex_);
  lost_ = lost;
}

SessionProgress ProgressMeter::Read(SessionPhase phase) const {
  SessionProgress progress;
  progress.phase = phase;
  std::shared_ptr<xspace::Store> store;
  std::vector<Collector*> collectors;
  {
    const MutexLock lock(&mutex_);
    store = store_;
    progress.lost = lost_.value_or(0);
    if (!lost_.has_value()) collectors = collectors_;
  }
  for (const Collector* collector : collectors) progress.lost += collector->LostSoFar();
  progress.events = store->events();
  progress.bytes = store->appended_bytes();
  return progress;
}

}  // namespace jobscope
