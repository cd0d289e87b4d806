// SPDX-License-Identifier: Apache-2.0
//
// Level 2: writes the calls of one session.
#ifndef COLLECTORS_PYTHON_CALLS_CALL_SESSION_H_
#define COLLECTORS_PYTHON_CALLS_CALL_SESSION_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectors/python/bridge/api.h"
#include "collectors/python/calls/call_ring.h"
#include "collectors/python/stacks/code_table.h"
#include "collectors/python/stacks/stacks.h"
#include "common/containers/hash_table.h"

namespace jobscope::python {

// State of one calling thread in one session. Written by that thread with the GIL held.
struct TracedThread {
  // Maximum depth of traced calls.
  static constexpr size_t kMaxDepth = 4096;
  static constexpr size_t kNameBytes = 64;
  struct Call {
    const Object* code;  // only for comparison, unless it is known to be running
    uint64_t begin_ticks;
    bool cut;  // it began earlier
  };

  uint32_t index = 0;
  int64_t tid = 0;
  // It ran Python code at the start: a call that ends while no other one is open was open then.
  bool early = false;
  bool over = false;  // its open calls are written, so that it records no more
  std::vector<Call> calls;
  uint32_t deeper = 0;   // open calls beyond kMaxDepth
  uint64_t dropped = 0;  // calls that were taken from `calls` because an outer one ended

  // The name is complete once `named` is true. It is looked up a few times, because `threading`
  // knows a thread only after its first calls.
  std::atomic<bool> named{false};
  std::array<char, kNameBytes> name = {};
  int name_tries = 0;
};

// Collects the calls of one session in a ring. Callers hold the GIL; one thread reads without it. A
// full ring loses and counts the newest calls.
class CallSession {
 public:
  static constexpr uint32_t kMaxThreads = 4096;

  struct Limits {
    uint64_t min_ticks = 0;  // shorter calls are not recorded
    uint64_t max_calls = 0;  // maximum number of calls; then it becomes inactive
  };

  // Requires the GIL. `ring` has CallRing::kRecords elements; it is allocated without the GIL,
  // because that takes a millisecond.
  CallSession(const Api& api, const TraceApi& trace, bool uses_tsc, std::vector<CallRecord> ring);
  CallSession(const CallSession&) = delete;
  CallSession& operator=(const CallSession&) = delete;

  // Any thread.
  bool active() const { return phase_.load(std::memory_order_relaxed) == Phase::kActive; }
  // Stops recording permanently.
  void Deactivate() { phase_.store(Phase::kOver, std::memory_order_relaxed); }

  // Starts recording. The threads with these idents are inside calls: those are recorded when they
  // end, or by WriteOpen. Requires the GIL. False: the session was deactivated before, because it
  // no longer waited for the GIL.
  bool Activate(const Limits& limits, const std::vector<uint64_t>& idents);
  // Records that the calling thread enters or leaves a call of this code object. Throws nothing:
  // stops recording permanently if memory runs out.
  void Enter(const Object* code);
  void Leave(Object* code);
  // Ends the recording of these threads: writes the calls that are still open, as far as the stacks
  // confirm them, as of `now_ticks`.
  void WriteOpen(const StackRound& stacks, uint64_t now_ticks);

  // Takes up to `capacity` records. Only on the reader's thread.
  size_t Take(CallRecord* out, size_t capacity) { return ring_.Take(out, capacity); }
  const TracedThread& thread(uint32_t index) const { return *threads_[index]; }

  // Any thread.
  uint64_t attempted() const { return attempted_.load(std::memory_order_relaxed); }
  uint64_t lost() const { return lost_.load(std::memory_order_relaxed); }  // the ring was full
  uint64_t short_calls() const { return short_.load(std::memory_order_relaxed); }
  uint64_t too_deep() const { return too_deep_.load(std::memory_order_relaxed); }
  uint64_t threads_refused() const { return refused_.load(std::memory_order_relaxed); }
  // Calls that are missing because a call around them ended first, or their start was not seen.
  uint64_t unpaired() const { return unpaired_.load(std::memory_order_relaxed); }
  // Threads whose outermost open calls are missing, because of the length of their stacks.
  uint64_t threads_cut() const { return cut_.load(std::memory_order_relaxed); }
  // Returns the ticks at which max_calls was reached; 0: it was not.
  uint64_t capped_ticks() const { return capped_ticks_.load(std::memory_order_relaxed); }
  // Returns the ticks at which memory ran out; 0: it did not.
  uint64_t out_of_memory_ticks() const {
    return out_of_memory_ticks_.load(std::memory_order_relaxed);
  }
  CodeTable* codes() { return &codes_; }

 private:
  template <typename Body>
  void OrDeactivate(Body body);
  void DoEnter(const Object* code);
  void DoLeave(Object* code);
  TracedThread* ThisThread();
  TracedThread* NewThread(uint64_t ident, int64_t tid);
  void Write(TracedThread* thread, uint32_t code, const TracedThread::Call& call, size_t depth,
             uint64_t end_ticks, bool truncated);
  void FindName(TracedThread* thread);
  static void SetName(TracedThread* thread, const std::string& text);
  static void Count(std::atomic<uint64_t>* counter, uint64_t count = 1) {
    counter->store(counter->load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  }

  const Api& api_;
  const bool uses_tsc_;
  // Unique in this process: distinguishes a thread's state from earlier sessions' ones.
  const uint64_t serial_;
  CodeTable codes_;
  Limits limits_;
  enum class Phase { kNotYet, kActive, kOver };
  std::atomic<Phase> phase_{Phase::kNotYet};
  // Capacity kMaxThreads is reserved, so it never moves.
  std::vector<std::unique_ptr<TracedThread>> threads_;
  HashMap<uint64_t, TracedThread*> by_ident_;
  uint64_t begin_ticks_ = 0;
  HashSet<uint64_t> early_;  // idents of those that have not called since

  CallRing ring_;
  std::atomic<uint64_t> attempted_{0}, lost_{0}, short_{0}, too_deep_{0}, refused_{0}, cut_{0},
      unpaired_{0}, capped_ticks_{0}, out_of_memory_ticks_{0};
};

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_CALLS_CALL_SESSION_H_
