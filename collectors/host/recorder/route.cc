// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/recorder/route.h"

#include "collectors/host/recorder/process.h"
#include "collectors/host/recorder/record.h"

namespace jobscope::recorder {

Routed RouteSlow(uint64_t events) {
  if (!Alive()) return {Route::kDrop, nullptr};
  ThreadState* state = t_slot.state;
  if (state == nullptr) state = Attach();
  switch (state->mode.load(std::memory_order_relaxed)) {
    case kRing:
    case kBare:
    case kCrossed:
      return {Route::kUse, state};
    case kDead:
      g_counters.no_ring.fetch_add(events, std::memory_order_relaxed);
      return {Route::kDrop, state};
    case kAttaching:
      g_counters.reentered.fetch_add(events, std::memory_order_relaxed);
      return {Route::kDrop, state};
    default:
      return {Route::kDrop, nullptr};
  }
}

Routed RouteBegin(const SlowCall& call) {
  const Routed routed = RouteSlow(0);
  if (routed.route == Route::kUse) RemoveCrossed(routed.state);
  if (routed.state == nullptr || HasRing(routed.state) || !call.outermost()) return routed;
  ThreadState* const state = TakeRing(routed.state);
  return HasRing(state) ? Routed{Route::kUse, state} : routed;
}

}  // namespace jobscope::recorder
