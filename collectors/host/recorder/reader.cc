// SPDX-License-Identifier: Apache-2.0
//
// Implements the reader table: copies events out of rings while their threads continue, samples
// open scopes, lists threads.
#include <errno.h>
#include <string.h>

#include <algorithm>

#include "collectors/host/recorder/dictionary.h"
#include "collectors/host/recorder/process.h"
#include "collectors/host/recorder/reader_abi.h"
#include "collectors/host/recorder/registry.h"
#include "collectors/host/recorder/steps.h"

namespace jobscope::recorder {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Returns the full ordinal of an event in the readable part of a ring. `counter` was loaded after
// the head that made the event readable, and before the one that showed that it still was: so it
// exceeds the ordinal by at least 1 and by less than 2^22.
uint64_t FullOrdinal(uint64_t counter, uint64_t word) {
  const uint64_t behind = (counter - WordOrdinal(word)) & kOrdinalMask;
  return counter - behind;
}

uint64_t LoadWord(const ThreadState& state, uint64_t index) {
  return Slots(&state)[index & state.record_mask].word[2].load(kRelaxed);
}

// Returns the published head as a consistent pair: derives the event counter from the last record.
jobscope_cursor PublishedHead(const ThreadState& state) {
  for (;;) {
    const uint64_t head = state.head_record.load(std::memory_order_acquire);
    if (head == 0) return {0, 0};
    const uint64_t counter = state.head_event.load(kRelaxed);
    const uint64_t word = LoadWord(state, head - 1);
    std::atomic_thread_fence(std::memory_order_acquire);
    const uint64_t now = state.head_record.load(kRelaxed);
    // Otherwise the thread has lapped the reader between two loads: at least a thousand records.
    if (head - 1 >= OldestSafe(now, state.record_mask)) {
      return {head, FullOrdinal(counter, word) + 1};
    }
  }
}

bool IsBare(const ThreadState& state) { return state.mode.load(kRelaxed) == kBare; }

// ---- threads ----

// Returns false if the state changed its owner meanwhile, or has none.
bool Describe(ThreadState* state, uint64_t from_serial, jobscope_thread_info* out) {
  const uint64_t serial = state->serial.load(std::memory_order_acquire);
  if (serial == 0 || serial < from_serial) return false;
  // Loaded before the heads: if the thread has ended, these are final.
  const bool ended = state->status.load(std::memory_order_acquire) != kLive;
  const bool bare = IsBare(*state);
  if (ended && bare) return false;
  *out = {};
  out->serial = serial;
  out->tid = state->tid.load(kRelaxed);
  out->ended = ended ? 1 : 0;
  out->has_ring = bare ? 0 : 1;
  out->first_record = state->first_record.load(kRelaxed);
  out->first_event = state->first_event.load(kRelaxed);
  if (!bare) {
    const jobscope_cursor head = PublishedHead(*state);
    out->head_record = head.record;
    out->head_event = head.event;
  }
  out->reentered = state->reentered.load(kRelaxed) - state->first_reentered.load(kRelaxed);
  ReadName(state, !ended, out->name, sizeof(out->name));
  std::atomic_thread_fence(std::memory_order_acquire);
  return state->serial.load(kRelaxed) == serial;
}

bool HasLowerSerial(const jobscope_thread_info& a, const jobscope_thread_info& b) {
  return a.serial < b.serial;
}

// Keeps the `capacity` lowest serials, in order: a heap with the highest on top, because states are
// unordered once threads have ended and others started.
size_t Threads(uint64_t from_serial, jobscope_thread_info* out, size_t capacity) {
  size_t count = 0;
  const uint32_t states = StateCount();
  for (uint32_t i = 0; i < states; ++i) {
    ThreadState* state = StateAt(i);
    jobscope_thread_info info;
    if (state == nullptr || !Describe(state, from_serial, &info)) continue;
    if (count == capacity) {
      if (capacity == 0 || out[0].serial <= info.serial) continue;
      std::pop_heap(out, out + count--, HasLowerSerial);
    }
    out[count++] = info;
    std::push_heap(out, out + count, HasLowerSerial);
  }
  std::sort_heap(out, out + count, HasLowerSerial);
  return count;
}

// ---- events ----

// Returns where the first whole event at or after `from` begins; `end` if there is none.
template <typename WordAt>
uint64_t FirstMain(uint64_t from, uint64_t end, WordAt word_at) {
  while (from < end && WordKind(word_at(from)) == JOBSCOPE_KIND_CONTINUATION) ++from;
  return from;
}

// A thread at full speed overwrites records while the oldest one is being located, so each try
// looks further ahead.
jobscope_cursor Oldest(uint64_t serial) {
  const ThreadState* state = FindState(serial);
  if (state == nullptr || IsBare(*state)) return {0, 0};
  const uint64_t first = state->first_record.load(kRelaxed);
  const uint64_t first_event = state->first_event.load(kRelaxed);
  const uint64_t ring = state->record_mask + 1;
  const uint64_t leads[] = {0, 64, ring / 16, ring / 4, ring / 2};
  for (const uint64_t lead : leads) {
    const uint64_t head = state->head_record.load(std::memory_order_acquire);
    const uint64_t safe = OldestSafe(head, state->record_mask);
    if (safe <= first) return {first, first_event};
    const uint64_t at =
        FirstMain(safe + lead, head, [&](uint64_t i) { return LoadWord(*state, i); });
    if (at >= head) continue;
    const uint64_t word = LoadWord(*state, at);
    const uint64_t counter = state->head_event.load(kRelaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    const uint64_t now = state->head_record.load(kRelaxed);
    if (at >= OldestSafe(now, state->record_mask)) return {at, FullOrdinal(counter, word)};
  }
  return PublishedHead(*state);
}

// Decodes the words of a slot, copied unchanged from the ring, to the ABI.
void Decode(jobscope_record* record) {
  uint64_t word;
  memcpy(&word, reinterpret_cast<char*>(record) + 16, sizeof(word));
  record->site = WordSite(word);
  record->kind = static_cast<uint8_t>(WordKind(word));
  record->depth = static_cast<uint8_t>(WordDepth(word));
  record->flags = static_cast<uint16_t>(WordType(word) | WordContinuations(word) << 4 |
                                        (WordCut(word) != 0 ? JOBSCOPE_FLAG_CUT : 0));
}

uint64_t RawWord(const jobscope_record& record) {
  uint64_t word;
  memcpy(&word, reinterpret_cast<const char*>(&record) + 16, sizeof(word));
  return word;
}

void CopySlots(const ThreadState& state, uint64_t from, uint64_t end, jobscope_record* out) {
  for (uint64_t i = from; i < end; ++i) {
    const Slot& slot = Slots(&state)[i & state.record_mask];
    const uint64_t words[4] = {slot.word[0].load(kRelaxed), slot.word[1].load(kRelaxed),
                               slot.word[2].load(kRelaxed), slot.word[3].load(kRelaxed)};
    memcpy(&out[i - from], words, sizeof(words));
  }
}

// Does the work of Read while the state belongs to the thread.
void ReadFrom(const ThreadState& state, jobscope_cursor* cursor, jobscope_record* out,
              size_t capacity, jobscope_read_result* result) {
  // If a thread laps the copy, the next try starts further ahead: by half a ring, then three
  // quarters.
  const uint64_t ring = state.record_mask + 1;
  const uint64_t leads[] = {0, ring / 2, ring / 4 * 3};
  const uint64_t first = state.first_record.load(kRelaxed);
  if (cursor->record < first) *cursor = {first, state.first_event.load(kRelaxed)};
  for (const uint64_t lead : leads) {
    const uint64_t head = state.head_record.load(std::memory_order_acquire);
    if (head <= cursor->record) return;
    uint64_t from = OldestSafe(head, state.record_mask);
    if (from > cursor->record) from += lead < head - from ? lead : 0;
    if (from < cursor->record) from = cursor->record;
    const uint64_t end = head - from > capacity ? from + capacity : head;
    CopySlots(state, from, end, out);
    const uint64_t counter = state.head_event.load(kRelaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    const uint64_t safe = OldestSafe(state.head_record.load(kRelaxed), state.record_mask);

    // After what was overwritten meanwhile, at the main record of a whole event.
    uint64_t at = from > safe ? from : safe;
    const auto word_at = [&](uint64_t i) { return RawWord(out[i - from]); };
    at = FirstMain(at, end, word_at);
    if (at >= end) continue;

    const uint64_t first_event = FullOrdinal(counter, word_at(at));
    const uint64_t begin = at;
    uint64_t events = 0;
    while (at < end) {
      const uint64_t next = at + 1 + WordContinuations(word_at(at));
      if (next > end) break;  // cut off by the capacity; the rest stays in the ring
      at = next;
      ++events;
    }
    if (events == 0) continue;
    if (begin > from) memmove(out, out + (begin - from), (at - begin) * sizeof(*out));
    for (uint64_t i = 0; i < at - begin; ++i) Decode(&out[i]);
    result->records = at - begin;
    result->events = events;
    result->lost_events = first_event - cursor->event;
    result->more = at < head ? 1 : 0;
    cursor->record = at;
    cursor->event = first_event + events;
    return;
  }
  result->more = 1;
}

int Read(uint64_t serial, jobscope_cursor* cursor, jobscope_record* out, size_t capacity,
         jobscope_read_result* result) {
  *result = {};
  const ThreadState* state = FindState(serial);
  if (state == nullptr) return ENOENT;
  if (IsBare(*state)) return 0;
  const jobscope_cursor before = *cursor;
  ReadFrom(*state, cursor, out, capacity, result);
  std::atomic_thread_fence(std::memory_order_acquire);
  if (state->serial.load(kRelaxed) == serial) return 0;
  // Another thread took the ring during the copy; its records may be among the copied ones.
  *cursor = before;
  *result = {};
  return ENOENT;
}

// ---- open scopes ----

constexpr int kSampleTries = 64;

size_t OpenScopes(uint64_t serial, jobscope_open_scope* out, size_t capacity) {
  const ThreadState* state = FindState(serial);
  if (state == nullptr) return 0;
  for (int tries = 0; tries < kSampleTries; ++tries) {
    const uint64_t stack = state->stack.load(std::memory_order_acquire);
    size_t depth = stack & kMaxDepth;
    if (depth > kMaxOpenScopes) depth = kMaxOpenScopes;
    size_t count = 0;
    for (size_t i = 0; i < depth && count < capacity; ++i) {
      const OpenScope& open = state->open[i];
      const uint64_t begin_ticks = open.begin_ticks.load(kRelaxed);
      if (begin_ticks == 0) continue;  // has ended on another thread
      const uint64_t site = open.site.load(kRelaxed);
      out[count].site = static_cast<uint32_t>(site);
      out[count].depth = static_cast<uint8_t>(i);
      out[count].begin_ticks = begin_ticks;
      out[count].has_step_number = (site & kOpenIsStep) != 0 ? 1 : 0;
      out[count].step_number = open.step_number.load(kRelaxed);
      ++count;
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (state->serial.load(kRelaxed) != serial) return 0;
    if (state->stack.load(kRelaxed) == stack) return count;
  }
  return 0;
}

// ---- the rest of the table ----

int Site(uint32_t id, jobscope_site_info* out) { return SiteInfo(id, out) ? 0 : ENOENT; }

void Totals(jobscope_totals* out) {
  *out = {};
  if (!Alive()) return;
  out->no_ring_events = g_counters.no_ring.load(kRelaxed);
  out->reentered_events = g_counters.reentered.load(kRelaxed);
  out->dictionary_full = g_counters.dictionary_full.load(kRelaxed);
  out->ring_count = RingCount();
  out->ring_bytes = RingBytes();
  const uint32_t states = StateCount();
  for (uint32_t i = 0; i < states; ++i) {
    const ThreadState* state = StateAt(i);
    if (state == nullptr) continue;
    if (!IsBare(*state)) out->attempted_events += PublishedHead(*state).event;
    out->no_ring_events += state->no_ring.load(kRelaxed);
    out->reentered_events += state->reentered.load(kRelaxed);
  }
}

void Hold(uint32_t hold) { HoldEnded(hold != 0); }

void Arm(int64_t first, int64_t last, uint32_t bits) {
  if (Alive()) ArmTrigger(first, last, bits);
}
void ArmByOrdinal(uint64_t first, uint64_t last, uint32_t bits) {
  if (Alive()) ArmTriggerByOrdinal(first, last, bits);
}
void Disarm() {
  if (Alive()) DisarmTrigger();
}

int ConfigureRings(uint32_t ring_records, uint64_t cap_bytes);

struct jobscope_trace_reader g_reader = {
    sizeof(struct jobscope_trace_reader),
    0,  // uses_tsc, ring_records: see BindReaderTable
    0,
    kMaxBareStates,
    &SetHolder,
    &Mask,
    &Quiesce,
    &ConfigureRings,
    &Prefault,
    &Threads,
    &Hold,
    &Release,
    &Oldest,
    &Read,
    &OpenScopes,
    &Site,
    &NameText,
    &Totals,
    &Arm,
    &Disarm,
    &GetTrigger,
    &RecentSteps,
    &StepCount,
    &ArmByOrdinal,
    &TriggerOrdinals,
    &LastStepFall,
    &StepSource,
};

int ConfigureRings(uint32_t ring_records, uint64_t cap_bytes) {
  const int result = Configure(ring_records, cap_bytes);
  if (result == 0) __atomic_store_n(&g_reader.ring_records, ring_records, __ATOMIC_RELAXED);
  return result;
}

}  // namespace

void BindReaderTable() {
  g_reader.uses_tsc = g_uses_tsc ? 1 : 0;
  g_reader.ring_records = RingRecords();
}
}  // namespace jobscope::recorder

extern "C" const struct jobscope_trace_reader* jobscope_trace_reader() {
  jobscope::recorder::Init();
  return &jobscope::recorder::g_reader;
}
