// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/recorder/steps.h"

#include <sched.h>

#include <atomic>

#include "collectors/host/recorder/dictionary.h"
#include "collectors/host/recorder/process.h"

namespace jobscope::recorder {
namespace {

std::atomic<uint32_t> g_source{0};
std::atomic<uint64_t> g_count{0};
std::atomic<int64_t> g_last_number{INT64_MIN};
std::atomic<uint64_t> g_last_fall{0};

// Records one recent step. Steps are few, but several threads may run steps of one site (a
// pipeline), so a slot belongs to an ordinal only while it holds that ordinal (+ 1); its end counts
// only with the same tag.
struct StepSlot {
  std::atomic<uint64_t> ordinal;
  std::atomic<int64_t> number;
  std::atomic<uint64_t> begin_ticks;
  std::atomic<uint64_t> end_ticks;
  std::atomic<uint64_t> end_ordinal;
};
StepSlot g_slots[kRecentSteps];

// Two internal states besides jobscope_trigger_state: a thread is currently changing the state.
constexpr uint32_t kOpening = 16;
constexpr uint32_t kClosing = 17;

struct Trigger {
  std::atomic<uint32_t> state{JOBSCOPE_TRIGGER_IDLE};
  std::atomic<uint32_t> bits{0};
  std::atomic<bool> by_ordinal{false};  // first and last are ordinals, not step numbers
  std::atomic<int64_t> first{0};
  std::atomic<int64_t> last{0};
  // Of a window that opened late, by ordinal: ends it if numbers restart before they reach `last`.
  std::atomic<int64_t> last_ordinal{INT64_MAX};
  std::atomic<int64_t> opened_step{0};
  std::atomic<int64_t> closed_step{0};
  std::atomic<uint64_t> opened_ordinal{0};
  std::atomic<uint64_t> closed_ordinal{0};
  // The newest step whose number is below opened_step: the program counts its steps anew. Several
  // steps of one number (micro-batches) are no restart.
  std::atomic<uint64_t> last_restart{0};
  std::atomic<uint64_t> open_ticks{0};
  std::atomic<uint64_t> close_ticks{0};
};
Trigger g_trigger;

constexpr auto kRelaxed = std::memory_order_relaxed;

// At one step per nanosecond, an ordinal exceeds int64 after three hundred years.
bool HasReached(const std::atomic<int64_t>& bound, int64_t number, uint64_t ordinal) {
  const int64_t at = g_trigger.by_ordinal.load(kRelaxed) ? static_cast<int64_t>(ordinal) : number;
  return at >= bound.load(kRelaxed);
}

// A program that counts its steps anew in each epoch may never reach the number of a last step that
// was moved past the end of an epoch.
bool IsLast(int64_t number, uint64_t ordinal) {
  if (HasReached(g_trigger.last, number, ordinal)) return true;
  return g_trigger.last_restart.load(kRelaxed) > g_trigger.opened_ordinal.load(kRelaxed) &&
         static_cast<int64_t>(ordinal) >= g_trigger.last_ordinal.load(kRelaxed);
}

// Returns the distance from the first requested step to the one that opens the window, if the
// former began before the trigger was armed. `previous` is the number of the step before. 0 if the
// program's numbers skip steps.
int64_t Lateness(int64_t number, int64_t previous, uint64_t ordinal) {
  const int64_t first = g_trigger.first.load(kRelaxed);
  int64_t late = 0;
  if (g_trigger.by_ordinal.load(kRelaxed)) return static_cast<int64_t>(ordinal) - first;
  if (previous < first || __builtin_sub_overflow(number, first, &late)) return 0;
  return late;
}

// A window that opens late keeps its requested length.
void MaybeOpen(int64_t number, int64_t previous, uint64_t ordinal, uint64_t ticks) {
  uint32_t state = g_trigger.state.load(std::memory_order_acquire);
  if (state != JOBSCOPE_TRIGGER_ARMED || !HasReached(g_trigger.first, number, ordinal)) return;
  if (!g_trigger.state.compare_exchange_strong(state, kOpening)) return;
  if (!HasReached(g_trigger.first, number, ordinal)) {  // rearmed between the two loads
    g_trigger.state.store(JOBSCOPE_TRIGGER_ARMED, std::memory_order_release);
    return;
  }
  const int64_t late = Lateness(number, previous, ordinal);
  if (late != 0) {
    const int64_t wanted = g_trigger.last.load(kRelaxed);
    int64_t last = 0;
    if (__builtin_add_overflow(wanted, late, &last)) last = INT64_MAX;
    int64_t last_ordinal = 0;
    if (__builtin_sub_overflow(wanted, g_trigger.first.load(kRelaxed), &last_ordinal) ||
        __builtin_add_overflow(last_ordinal, static_cast<int64_t>(ordinal), &last_ordinal)) {
      last_ordinal = INT64_MAX;
    }
    g_trigger.last.store(last, kRelaxed);
    g_trigger.last_ordinal.store(last_ordinal, kRelaxed);
  }
  g_trigger.opened_step.store(number, kRelaxed);
  g_trigger.opened_ordinal.store(ordinal, kRelaxed);
  g_trigger.open_ticks.store(ticks, kRelaxed);
  AddToHolder(JOBSCOPE_HOLDER_SESSION, g_trigger.bits.load(kRelaxed));
  g_trigger.state.store(JOBSCOPE_TRIGGER_OPEN, std::memory_order_release);
}

// `ordinal` is 0 for a step that is no longer among the newest; it can close the window only by its
// number.
void MaybeClose(int64_t number, uint64_t ordinal, uint64_t ticks) {
  uint32_t state = g_trigger.state.load(std::memory_order_acquire);
  if (state != JOBSCOPE_TRIGGER_OPEN || !IsLast(number, ordinal)) return;
  if (!g_trigger.state.compare_exchange_strong(state, kClosing)) return;
  if (!IsLast(number, ordinal)) {
    g_trigger.state.store(JOBSCOPE_TRIGGER_OPEN, std::memory_order_release);
    return;
  }
  TakeFromHolder(JOBSCOPE_HOLDER_SESSION, g_trigger.bits.load(kRelaxed));
  g_trigger.closed_step.store(number, kRelaxed);
  g_trigger.closed_ordinal.store(ordinal, kRelaxed);
  g_trigger.close_ticks.store(ticks, kRelaxed);
  g_trigger.state.store(JOBSCOPE_TRIGGER_CLOSED, std::memory_order_release);
}

// Returns the ordinal of the step that began there, if it is still among the newest; else 0.
uint64_t OrdinalOf(int64_t number, uint64_t begin_ticks) {
  // Newest first: usually it is that one.
  const uint64_t count = g_count.load();
  for (uint64_t ordinal = count; ordinal > 0 && ordinal + kRecentSteps > count; --ordinal) {
    const StepSlot& slot = g_slots[ordinal % kRecentSteps];
    if (slot.ordinal.load(std::memory_order_acquire) == ordinal &&
        slot.begin_ticks.load(kRelaxed) == begin_ticks && slot.number.load(kRelaxed) == number) {
      return ordinal;
    }
  }
  return 0;
}

void Begin(uint64_t ordinal, bool again, int64_t number, uint64_t begin_ticks) {
  const int64_t previous = g_last_number.exchange(number, kRelaxed);
  if (previous >= number && !again) g_last_fall.store(ordinal, kRelaxed);
  if (number < g_trigger.opened_step.load(kRelaxed)) {
    g_trigger.last_restart.store(ordinal, kRelaxed);
  }
  MaybeOpen(number, previous, ordinal, begin_ticks);
  StepSlot& slot = g_slots[ordinal % kRecentSteps];
  slot.ordinal.store(0, kRelaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot.number.store(number, kRelaxed);
  slot.begin_ticks.store(begin_ticks, kRelaxed);
  slot.ordinal.store(ordinal, std::memory_order_release);
}

void Arm(bool by_ordinal, int64_t first, int64_t last, uint32_t bits) {
  DisarmTrigger();
  g_trigger.by_ordinal.store(by_ordinal, kRelaxed);
  g_trigger.first.store(first, kRelaxed);
  g_trigger.last.store(last, kRelaxed);
  g_trigger.last_ordinal.store(INT64_MAX, kRelaxed);
  g_trigger.bits.store(bits, kRelaxed);
  g_trigger.opened_step.store(0, kRelaxed);
  g_trigger.closed_step.store(0, kRelaxed);
  g_trigger.opened_ordinal.store(0, kRelaxed);
  g_trigger.closed_ordinal.store(0, kRelaxed);
  g_trigger.open_ticks.store(0, kRelaxed);
  g_trigger.close_ticks.store(0, kRelaxed);
  g_trigger.state.store(JOBSCOPE_TRIGGER_ARMED, std::memory_order_release);
}

}  // namespace

bool IsSource(uint32_t site) {
  uint32_t source = g_source.load(kRelaxed);
  while (source != site) {
    // A source without a name, for lack of memory, is replaced, too.
    const bool stays = source != 0 && source != JOBSCOPE_SITE_WITHOUT_A_NAME;
    if (stays && (source & kInferredSource) == 0) return false;
    if (!g_source.compare_exchange_weak(source, site)) continue;
    // Steps of the previous source are discarded; one of them has no end.
    if (source != 0) {
      for (StepSlot& slot : g_slots) slot.ordinal.store(0, kRelaxed);
    }
    return true;
  }
  return true;
}

void OnStepBegin(uint32_t site, int64_t number, uint64_t begin_ticks) {
  if (!IsSource(site)) return;
  Begin(g_count.fetch_add(1) + 1, /*again=*/false, number, begin_ticks);
}

void OnStepBeginAgain(uint32_t site, int64_t number, uint64_t begin_ticks) {
  if (!IsSource(site)) return;
  const uint64_t newest = g_count.load();
  const StepSlot& slot = g_slots[newest % kRecentSteps];
  const bool runs = newest != 0 && slot.ordinal.load(std::memory_order_acquire) == newest &&
                    slot.number.load(kRelaxed) == number &&
                    slot.end_ordinal.load(kRelaxed) != newest;
  Begin(runs ? newest : g_count.fetch_add(1) + 1, runs, number, begin_ticks);
}

void OnStepEnd(uint32_t site, int64_t number, uint64_t begin_ticks, uint64_t end_ticks) {
  if (!IsSource(site)) return;
  const uint64_t ordinal = OrdinalOf(number, begin_ticks);
  MaybeClose(number, ordinal, end_ticks);
  if (ordinal == 0) return;
  StepSlot& slot = g_slots[ordinal % kRecentSteps];
  slot.end_ticks.store(end_ticks, kRelaxed);
  slot.end_ordinal.store(ordinal, std::memory_order_release);
}

void ArmTrigger(int64_t first, int64_t last, uint32_t bits) {
  Arm(/*by_ordinal=*/false, first, last, bits);
}

void ArmTriggerByOrdinal(uint64_t first, uint64_t last, uint32_t bits) {
  constexpr auto kMost = static_cast<uint64_t>(INT64_MAX);
  Arm(/*by_ordinal=*/true, static_cast<int64_t>(first < kMost ? first : kMost),
      static_cast<int64_t>(last < kMost ? last : kMost), bits);
}

void DisarmTrigger() {
  uint32_t state = g_trigger.state.load(std::memory_order_acquire);
  for (;;) {
    if (state == kOpening || state == kClosing) {
      // An application thread is a few stores from finishing; only the reader waits.
      sched_yield();
      state = g_trigger.state.load(std::memory_order_acquire);
      continue;
    }
    if (g_trigger.state.compare_exchange_weak(state, JOBSCOPE_TRIGGER_IDLE)) return;
  }
}

void GetTrigger(jobscope_trigger_info* out) {
  *out = {};
  uint32_t state = g_trigger.state.load(std::memory_order_acquire);
  if (state == kOpening) state = JOBSCOPE_TRIGGER_ARMED;
  if (state == kClosing) state = JOBSCOPE_TRIGGER_OPEN;
  out->state = state;
  if (state == JOBSCOPE_TRIGGER_OPEN || state == JOBSCOPE_TRIGGER_CLOSED) {
    out->first_step = g_trigger.opened_step.load(kRelaxed);
    out->open_ticks = g_trigger.open_ticks.load(kRelaxed);
  }
  if (state == JOBSCOPE_TRIGGER_CLOSED) {
    out->last_step = g_trigger.closed_step.load(kRelaxed);
    out->close_ticks = g_trigger.close_ticks.load(kRelaxed);
  }
}

void TriggerOrdinals(uint64_t* first, uint64_t* last) {
  const uint32_t state = g_trigger.state.load(std::memory_order_acquire);
  const bool closed = state == JOBSCOPE_TRIGGER_CLOSED;
  const bool opened = closed || state == JOBSCOPE_TRIGGER_OPEN || state == kClosing;
  *first = opened ? g_trigger.opened_ordinal.load(kRelaxed) : 0;
  *last = closed ? g_trigger.closed_ordinal.load(kRelaxed) : 0;
}

size_t RecentSteps(jobscope_step_info* out, size_t capacity) {
  if (!Alive()) return 0;
  const uint64_t count = g_count.load();
  uint64_t wanted = count < kRecentSteps ? count : kRecentSteps;
  if (wanted > capacity) wanted = capacity;
  size_t written = 0;
  for (uint64_t ordinal = count - wanted + 1; ordinal <= count; ++ordinal) {
    StepSlot& slot = g_slots[ordinal % kRecentSteps];
    if (slot.ordinal.load(std::memory_order_acquire) != ordinal) continue;
    jobscope_step_info info = {};
    info.number = slot.number.load(kRelaxed);
    info.begin_ticks = slot.begin_ticks.load(kRelaxed);
    if (slot.end_ordinal.load(std::memory_order_acquire) == ordinal) {
      info.end_ticks = slot.end_ticks.load(kRelaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.ordinal.load(kRelaxed) != ordinal) continue;
    out[written++] = info;
  }
  return written;
}

uint64_t LastStepFall() { return Alive() ? g_last_fall.load(kRelaxed) : 0; }

uint32_t StepSource() { return Alive() ? g_source.load(kRelaxed) & ~kInferredSource : 0; }

uint64_t StepCount() { return Alive() ? g_count.load() : 0; }

}  // namespace jobscope::recorder
