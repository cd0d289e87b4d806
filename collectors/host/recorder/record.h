// SPDX-License-Identifier: Apache-2.0
//
// Writes into the calling thread's state: the open-scope stack and the ring. Inline, because this
// is the hot path. Callers must be between Enter and Leave.
#ifndef COLLECTORS_HOST_RECORDER_RECORD_H_
#define COLLECTORS_HOST_RECORDER_RECORD_H_

#include <stdint.h>
#include <string.h>

#include "collectors/host/recorder/thread_state.h"

namespace jobscope::recorder {

// Begins a record. A signal handler that records while its thread is in the middle of a record
// finds `busy` set: it is refused and counted. Only one thread uses the word, so compiler barriers
// suffice.
inline bool Enter(ThreadState* state) {
  if (__builtin_expect(state->busy.load(std::memory_order_relaxed) != 0, 0)) return false;
  state->busy.store(1, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return true;
}
inline void Leave(ThreadState* state) {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  state->busy.store(0, std::memory_order_relaxed);
}

inline uint32_t Depth(const ThreadState* state) {
  return state->stack.load(std::memory_order_relaxed) & kMaxDepth;
}
inline uint32_t RecordDepth(uint32_t depth) { return depth < 0xff ? depth : 0xff; }

// The fence orders the words of an entry after the pop that made space for it: a reader that saw a
// new word then sees a changed `stack`.
inline void PushOpen(ThreadState* state, uint64_t stack, uint64_t site, uint64_t begin_ticks,
                     int64_t step_number) {
  const uint32_t depth = stack & kMaxDepth;
  if (__builtin_expect(depth < kMaxOpenScopes, 1)) {
    std::atomic_thread_fence(std::memory_order_release);
    OpenScope& open = state->open[depth];
    open.site.store(site, std::memory_order_relaxed);
    open.begin_ticks.store(begin_ticks, std::memory_order_relaxed);
    open.step_number.store(step_number, std::memory_order_relaxed);
  }
  const uint64_t deeper = depth < kMaxDepth ? 1 : 0;
  state->stack.store((((stack >> 16) + 1) << 16 | depth) + deeper, std::memory_order_release);
}

// Place of a scope that began without a state of its own: matches no thread.
inline constexpr uint64_t kNowhere = ~uint64_t{0};

// Marks a scope that began on another thread as ended: it is no longer sampled, and that thread
// removes it from its stack when it begins another scope. Any thread; takes no lock.
void EndElsewhere(jobscope_token token);

// Removes the scopes at the top of the stack that have ended on other threads. Clears kCrossed
// unless there are more of them, under scopes that are open.
void RemoveCrossed(ThreadState* state);

// Returns whether the scope at `place` began on another thread.
inline bool IsElsewhere(const ThreadState* state, uint64_t place) {
  return (place ^ state->place) > kMaxDepth;
}

// Ends the scope of this thread at `place`; returns its depth. Also removes inner scopes that were
// left without an end (longjmp).
inline uint32_t PopOpen(ThreadState* state, uint64_t place) {
  const uint64_t stack = state->stack.load(std::memory_order_relaxed);
  const uint32_t now = stack & kMaxDepth;
  const uint32_t depth = place & kMaxDepth;
  if (__builtin_expect(depth >= now, 0)) return now;
  state->stack.store(((stack >> 16) + 1) << 16 | depth, std::memory_order_release);
  return depth;
}

inline void StoreSlot(Slot* slot, uint64_t begin, uint64_t end, uint64_t word, uint64_t arg) {
  slot->word[0].store(begin, std::memory_order_relaxed);
  slot->word[1].store(end, std::memory_order_relaxed);
  slot->word[2].store(word, std::memory_order_relaxed);
  slot->word[3].store(arg, std::memory_order_relaxed);
}

// Publishes `records` records as one event. The event counter is stored first: a reader that has
// seen the head has seen a counter at least as new, and corrects it by the ordinal in the record.
inline void Publish(ThreadState* state, uint64_t head, uint64_t event, uint64_t records) {
  state->head_event.store(event + 1, std::memory_order_relaxed);
  state->head_record.store(head + records, std::memory_order_release);
}

// Writes an event of one record. The fence orders its words after the previously published head: a
// reader that saw one of them then sees how far the writer had come.
inline void WriteOne(ThreadState* state, uint32_t site, uint32_t kind, uint32_t depth,
                     uint32_t type, uint64_t begin, uint64_t end, uint64_t arg) {
  const uint64_t head = state->head_record.load(std::memory_order_relaxed);
  const uint64_t event = state->head_event.load(std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  StoreSlot(&Slots(state)[head & state->record_mask], begin, end,
            PackWord(site, kind, RecordDepth(depth), type, 0, 0, event), arg);
  Publish(state, head, event, 1);
}

// Writes an event with arguments and its continuations, published together.
void WriteWithArgs(ThreadState* state, uint32_t site, uint32_t kind, uint32_t depth, uint64_t begin,
                   uint64_t end, const jobscope_arg* args, uint32_t arg_count);

}  // namespace jobscope::recorder

#endif  // COLLECTORS_HOST_RECORDER_RECORD_H_
