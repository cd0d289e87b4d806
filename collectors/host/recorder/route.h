// SPDX-License-Identifier: Apache-2.0
//
// Finds a state for the calls of threads without a ring: the slow path of the writer.
#ifndef COLLECTORS_HOST_RECORDER_ROUTE_H_
#define COLLECTORS_HOST_RECORDER_ROUTE_H_

#include <stdint.h>

#include "collectors/host/recorder/registry.h"
#include "collectors/host/recorder/thread_state.h"

namespace jobscope::recorder {

inline bool HasRing(const ThreadState* state) {
  return state != nullptr && state->record_mask != 0;
}

// kDrop: the call records nothing. The state, if there is one, then is shared.
enum class Route { kDrop, kUse };
struct Routed {
  Route route;
  ThreadState* state;
};

// Marks a call that may use a state without a ring, before it looks the state up: an interrupting
// signal handler must not return that state.
class SlowCall {
 public:
  SlowCall() : outermost_(t_slot.slow_calls == 0) {
    ++t_slot.slow_calls;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~SlowCall() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    --t_slot.slow_calls;
  }
  SlowCall(const SlowCall&) = delete;
  SlowCall& operator=(const SlowCall&) = delete;
  bool outermost() const { return outermost_; }

 private:
  const bool outermost_;
};

// Attaches a new thread, and counts `events` attempts for one that gets no ring. kUse: the state
// keeps open scopes, with or without a ring.
__attribute__((noinline, cold)) Routed RouteSlow(uint64_t events);

// Routes the begin of a scope or step. Takes a ring if one is free now.
__attribute__((noinline, cold)) Routed RouteBegin(const SlowCall& call);

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_ROUTE_H_
