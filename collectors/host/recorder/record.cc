// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/recorder/record.h"

#include <algorithm>

#include "collectors/host/recorder/registry.h"

namespace jobscope::recorder {
namespace {

constexpr uint32_t kBytesPerContinuation = 24;
static_assert(JOBSCOPE_MAX_STRING % kBytesPerContinuation == 0);
static_assert(1 + JOBSCOPE_MAX_KEYS * (JOBSCOPE_MAX_STRING / kBytesPerContinuation) ==
              JOBSCOPE_MAX_EVENT_RECORDS);

uint32_t KeptBytes(const jobscope_arg& arg) {
  if (arg.value.text == nullptr) return 0;
  return arg.length < JOBSCOPE_MAX_STRING ? arg.length : JOBSCOPE_MAX_STRING;
}

uint32_t Pieces(uint32_t bytes) {
  return bytes == 0 ? 1 : (bytes + kBytesPerContinuation - 1) / kBytesPerContinuation;
}

bool HasEndedElsewhere(const ThreadState* state, uint32_t depth) {
  return state->open[depth].begin_ticks.load() == 0;
}

}  // namespace

// The entry may have been replaced, and the state have another owner: then the ticks differ.
void EndElsewhere(jobscope_token token) {
  if (token.place == kNowhere) return;
  const uint32_t depth = token.place & kMaxDepth;
  ThreadState* const state = FindState(token.place >> 16);
  if (state == nullptr || depth >= kMaxOpenScopes) return;
  if (!state->open[depth].begin_ticks.compare_exchange_strong(token.begin_ticks, 0)) return;
  uint32_t ring = kRing;
  state->mode.compare_exchange_strong(ring, kCrossed);
}

// The mode changes before the entries are read, both sequentially consistent as in EndElsewhere: an
// entry that is marked later sets the mode again.
void RemoveCrossed(ThreadState* state) {
  if (!Enter(state)) return;
  uint32_t crossed = kCrossed;
  const bool was_crossed = state->mode.compare_exchange_strong(crossed, kRing);
  const uint64_t stack = state->stack.load(std::memory_order_relaxed);
  // Deeper scopes have no entry: they are removed with the deepest that has one. Their ends find a
  // lower stack and leave it alone.
  const uint32_t kept = std::min(Depth(state), kMaxOpenScopes);
  uint32_t depth = kept;
  while (depth > 0 && HasEndedElsewhere(state, depth - 1)) --depth;
  if (depth < kept) {
    state->stack.store(((stack >> 16) + 1) << 16 | depth, std::memory_order_release);
  }
  uint32_t below = depth;
  while (below > 0 && !HasEndedElsewhere(state, below - 1)) --below;
  if (was_crossed && below > 0) state->mode.store(kCrossed, std::memory_order_relaxed);
  Leave(state);
}

void WriteWithArgs(ThreadState* state, uint32_t site, uint32_t kind, uint32_t depth, uint64_t begin,
                   uint64_t end, const jobscope_arg* args, uint32_t arg_count) {
  const uint64_t head = state->head_record.load(std::memory_order_relaxed);
  const uint64_t event = state->head_event.load(std::memory_order_relaxed);
  const uint64_t mask = state->record_mask;
  Slot* const slots = Slots(state);
  uint32_t cut = arg_count > JOBSCOPE_MAX_KEYS ? 1 : 0;
  if (cut != 0) arg_count = JOBSCOPE_MAX_KEYS;
  std::atomic_thread_fence(std::memory_order_release);

  uint64_t at = head + 1;
  for (uint32_t i = 0; i < arg_count; ++i) {
    const jobscope_arg& arg = args[i];
    if (arg.type != JOBSCOPE_ARG_STRING) {
      if (i == 0) continue;
      StoreSlot(&slots[at++ & mask], 0, 0,
                PackWord(0, JOBSCOPE_KIND_CONTINUATION, i, arg.type, 0, 0, event),
                arg.value.uint64_value);
      continue;
    }
    const uint32_t bytes = KeptBytes(arg);
    if (arg.length > bytes) cut = 1;
    const uint64_t word =
        PackWord(bytes, JOBSCOPE_KIND_CONTINUATION, i, JOBSCOPE_ARG_STRING, 0, 0, event);
    for (uint32_t piece = 0; piece < Pieces(bytes); ++piece) {
      const uint32_t from = piece * kBytesPerContinuation;
      uint64_t text[3] = {};
      if (bytes > 0) {
        const uint32_t left = bytes - from;
        memcpy(text, arg.value.text + from,
               left < kBytesPerContinuation ? left : kBytesPerContinuation);
      }
      StoreSlot(&slots[at++ & mask], text[0], text[1], word, text[2]);
    }
  }
  const bool number_first = arg_count > 0 && args[0].type != JOBSCOPE_ARG_STRING;
  const uint32_t continuations = static_cast<uint32_t>(at - head - 1);
  StoreSlot(&slots[head & mask], begin, end,
            PackWord(site, kind, RecordDepth(depth), arg_count > 0 ? args[0].type : 0,
                     continuations, cut, event),
            number_first ? args[0].value.uint64_value : 0);
  Publish(state, head, event, continuations + 1);
}

}  // namespace jobscope::recorder
