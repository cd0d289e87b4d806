// SPDX-License-Identifier: Apache-2.0
//
// Implements the writer table, which enabled sites call. Each function has a fast path for a thread
// with a ring and delegates everything else to one slow function.
#include "collectors/host/recorder/dictionary.h"
#include "collectors/host/recorder/process.h"
#include "collectors/host/recorder/record.h"
#include "collectors/host/recorder/registry.h"
#include "collectors/host/recorder/route.h"
#include "collectors/host/recorder/step_usage.h"
#include "collectors/host/recorder/steps.h"
#include "jobscope/trace_c.h"

namespace jobscope::recorder {
namespace {

#define JOBSCOPE_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define JOBSCOPE_NOINLINE __attribute__((noinline, cold))

constexpr jobscope_token kRefused = {0, 0};

// Returns whether a scope can begin without the slow path.
bool IsReady(const ThreadState* state) {
  return state != nullptr && state->mode.load(std::memory_order_relaxed) == kRing;
}

void CountReentered(ThreadState* state, uint64_t events) {
  state->reentered.fetch_add(events, std::memory_order_relaxed);
}

// Writes one event into the state's ring, or counts it if there is none.
inline void Commit(ThreadState* state, uint32_t site, uint32_t kind, uint32_t depth, uint64_t begin,
                   uint64_t end, const jobscope_arg* args, uint32_t arg_count) {
  if (JOBSCOPE_UNLIKELY(!HasRing(state))) {
    state->no_ring.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (arg_count == 0) {
    WriteOne(state, site, kind, depth, JOBSCOPE_ARG_NONE, begin, end, 0);
  } else if (arg_count == 1 && args[0].type != JOBSCOPE_ARG_STRING) {
    WriteOne(state, site, kind, depth, args[0].type, begin, end, args[0].value.uint64_value);
  } else {
    WriteWithArgs(state, site, kind, depth, begin, end, args, arg_count);
  }
}

bool WantsUsage() { return (Mask() & JOBSCOPE_BIT_STEP_USAGE) != 0; }

inline jobscope_arg StepNumber(int64_t number) {
  jobscope_arg arg = {};
  arg.type = JOBSCOPE_ARG_INT64;
  arg.value.int64_value = number;
  return arg;
}

// ---- begin ----

inline jobscope_token BeginOn(ThreadState* state, uint32_t site) {
  if (JOBSCOPE_UNLIKELY(!Enter(state))) {
    CountReentered(state, 1);
    return kRefused;
  }
  const uint64_t stack = state->stack.load(std::memory_order_relaxed);
  const uint64_t begin = Ticks();
  PushOpen(state, stack, site, begin, 0);
  Leave(state);
  return {begin, state->place | (stack & kMaxDepth)};
}

// A scope that began on the shared dead state is counted when it ends, as all scopes are.
JOBSCOPE_NOINLINE jobscope_token BeginSlow(uint32_t site) {
  const SlowCall call;
  const Routed routed = RouteBegin(call);
  if (routed.route == Route::kUse) return BeginOn(routed.state, site);
  if (routed.state == nullptr) return kRefused;
  if (routed.state->mode.load(std::memory_order_relaxed) == kDead) return {Ticks(), kNowhere};
  g_counters.reentered.fetch_add(1, std::memory_order_relaxed);
  return kRefused;
}

jobscope_token Begin(uint32_t site) {
  ThreadState* state = t_slot.state;
  if (JOBSCOPE_UNLIKELY(!IsReady(state))) return BeginSlow(site);
  return BeginOn(state, site);
}

// ---- end ----

JOBSCOPE_NOINLINE void EventSlow(uint32_t site, uint32_t kind, uint64_t begin, uint64_t end,
                                 const jobscope_arg* args, uint32_t arg_count);

JOBSCOPE_NOINLINE void EndFromElsewhere(uint32_t site, jobscope_token token, uint64_t end,
                                        uint32_t kind, const jobscope_arg* args,
                                        uint32_t arg_count) {
  EndElsewhere(token);
  EventSlow(site, kind, token.begin_ticks, end, args, arg_count);
}

inline void EndOn(ThreadState* state, uint32_t site, jobscope_token token, uint64_t end,
                  uint32_t kind, const jobscope_arg* args, uint32_t arg_count) {
  if (JOBSCOPE_UNLIKELY(IsElsewhere(state, token.place))) {
    return EndFromElsewhere(site, token, end, kind, args, arg_count);
  }
  if (JOBSCOPE_UNLIKELY(!Enter(state))) {
    CountReentered(state, 1);
    return;
  }
  const uint32_t depth = PopOpen(state, token.place);
  Commit(state, site, kind, depth, token.begin_ticks, end, args, arg_count);
  Leave(state);
}

JOBSCOPE_NOINLINE void EndSlow(uint32_t site, jobscope_token token, uint64_t end, uint32_t kind,
                               const jobscope_arg* args, uint32_t arg_count) {
  const SlowCall call;
  const Routed routed = RouteSlow(1);
  if (routed.route == Route::kUse) {
    EndOn(routed.state, site, token, end, kind, args, arg_count);
  } else {
    EndElsewhere(token);
  }
}

void End(uint32_t site, jobscope_token token) {
  const uint64_t end = Ticks();
  if (JOBSCOPE_UNLIKELY(token.begin_ticks == 0)) return;
  ThreadState* state = t_slot.state;
  if (JOBSCOPE_UNLIKELY(!HasRing(state))) {
    return EndSlow(site, token, end, JOBSCOPE_KIND_SCOPE, nullptr, 0);
  }
  EndOn(state, site, token, end, JOBSCOPE_KIND_SCOPE, nullptr, 0);
}

void EndArgs(uint32_t site, jobscope_token token, const jobscope_arg* args, uint32_t arg_count) {
  const uint64_t end = Ticks();
  if (JOBSCOPE_UNLIKELY(token.begin_ticks == 0)) return;
  ThreadState* state = t_slot.state;
  if (JOBSCOPE_UNLIKELY(!HasRing(state))) {
    return EndSlow(site, token, end, JOBSCOPE_KIND_SCOPE, args, arg_count);
  }
  EndOn(state, site, token, end, JOBSCOPE_KIND_SCOPE, args, arg_count);
}

// ---- steps ----

// A refused step counts as the two events that it would have been.
inline jobscope_token StepBeginOn(ThreadState* state, uint32_t site, int64_t number) {
  if (JOBSCOPE_UNLIKELY(!Enter(state))) {
    CountReentered(state, 2);
    return kRefused;
  }
  const uint64_t stack = state->stack.load(std::memory_order_relaxed);
  const jobscope_arg arg = StepNumber(number);
  const uint64_t begin = Ticks();
  // The trigger first: the recording that it enables should cover most of the step.
  OnStepBegin(site, number, begin);
  Commit(state, site, JOBSCOPE_KIND_STEP_BEGIN, stack & kMaxDepth, begin, begin, &arg, 1);
  PushOpen(state, stack, site | kOpenIsStep, begin, number);
  Leave(state);
  return {begin, state->place | (stack & kMaxDepth)};
}

JOBSCOPE_NOINLINE jobscope_token StepBeginSlow(uint32_t site, int64_t number) {
  const SlowCall call;
  const Routed routed = RouteBegin(call);
  if (routed.state == nullptr) return kRefused;
  if (routed.state->mode.load(std::memory_order_relaxed) == kDead) {
    g_counters.no_ring.fetch_add(1, std::memory_order_relaxed);
    const uint64_t begin = Ticks();
    OnStepBegin(site, number, begin);
    return {begin, kNowhere};
  }
  if (routed.route != Route::kUse) {
    g_counters.reentered.fetch_add(2, std::memory_order_relaxed);
    return kRefused;
  }
  const jobscope_token token = StepBeginOn(routed.state, site, number);
  if (HasRing(routed.state) && WantsUsage() && token.begin_ticks != 0) {
    BeginStepUsage(routed.state, token.begin_ticks);
  }
  return token;
}

jobscope_token StepBegin(uint32_t site, int64_t number) {
  ThreadState* state = t_slot.state;
  if (JOBSCOPE_UNLIKELY(!IsReady(state))) return StepBeginSlow(site, number);
  const jobscope_token token = StepBeginOn(state, site, number);
  if (WantsUsage() && token.begin_ticks != 0) BeginStepUsage(state, token.begin_ticks);
  return token;
}

void StepEnd(uint32_t site, jobscope_token token, int64_t number) {
  if (token.begin_ticks == 0 || !Alive()) return;
  jobscope_arg args[kStepArguments] = {StepNumber(number)};
  uint32_t count = 1;
  ThreadState* state = t_slot.state;
  // Within the step, because threads lose their processor in system calls; and before the end of a
  // window of steps disables it.
  const bool is_here = HasRing(state) && !IsElsewhere(state, token.place);
  if (is_here && WantsUsage()) count = EndStepUsage(state, token.begin_ticks, args);
  const uint64_t end = Ticks();
  OnStepEnd(site, number, token.begin_ticks, end);
  if (JOBSCOPE_UNLIKELY(!HasRing(state))) {
    return EndSlow(site, token, end, JOBSCOPE_KIND_STEP, args, count);
  }
  EndOn(state, site, token, end, JOBSCOPE_KIND_STEP, args, count);
}

// ---- events without a scope ----

// Writes one event of the thread at its current depth.
inline void EventOn(ThreadState* state, uint32_t site, uint32_t kind, uint64_t begin, uint64_t end,
                    const jobscope_arg* args, uint32_t arg_count) {
  if (JOBSCOPE_UNLIKELY(!Enter(state))) {
    CountReentered(state, 1);
    return;
  }
  Commit(state, site, kind, Depth(state), begin, end, args, arg_count);
  Leave(state);
}

JOBSCOPE_NOINLINE void EventSlow(uint32_t site, uint32_t kind, uint64_t begin, uint64_t end,
                                 const jobscope_arg* args, uint32_t arg_count) {
  const SlowCall call;
  const Routed routed = RouteSlow(1);
  if (routed.route == Route::kUse) {
    EventOn(routed.state, site, kind, begin, end, args, arg_count);
  }
}

inline void EventAt(uint32_t site, uint32_t kind, uint64_t begin, uint64_t end,
                    const jobscope_arg* args, uint32_t arg_count) {
  ThreadState* state = t_slot.state;
  if (JOBSCOPE_UNLIKELY(!HasRing(state))) {
    return EventSlow(site, kind, begin, end, args, arg_count);
  }
  EventOn(state, site, kind, begin, end, args, arg_count);
}

// The record is in the ring before its end can close a window: a reader that sees it closed finds
// the record.
uint64_t StepBoundary(uint32_t site, int64_t number, uint64_t begin_ticks) {
  const uint32_t source = site | kInferredSource;
  if (!Alive() || !IsSource(source)) return 0;
  ThreadState* const state = t_slot.state;
  const bool wants_usage = HasRing(state) && WantsUsage();
  if (begin_ticks == 0) {
    const uint64_t now = Ticks();
    OnStepBeginAgain(source, number, now);
    if (wants_usage) BeginStepUsage(state, now);
    return now;
  }
  jobscope_arg args[kStepArguments] = {StepNumber(number)};
  uint32_t count = 1;
  if (wants_usage) count = EndStepUsage(state, begin_ticks, args);
  const uint64_t now = Ticks();
  EventAt(site, JOBSCOPE_KIND_STEP, begin_ticks, now, args, count);
  OnStepEnd(source, number, begin_ticks, now);
  OnStepBegin(source, number + 1, now);
  return now;
}

void Discard(jobscope_token token) {
  if (token.begin_ticks != 0 && Alive()) EndElsewhere(token);
}

// A scope that began without a state belongs to no thread. In a forked child, states are wiped.
JOBSCOPE_NOINLINE uint32_t EndOwnSlow(uint32_t site, jobscope_token token, const jobscope_arg* args,
                                      uint32_t arg_count) {
  const ThreadState* const state = t_slot.state;
  const bool is_own = !Alive() || token.begin_ticks == 0 || token.place == kNowhere ||
                      (state != nullptr && !IsElsewhere(state, token.place));
  if (is_own) {
    EndArgs(site, token, args, arg_count);
  } else {
    EndElsewhere(token);
  }
  return is_own ? 1 : 0;
}

uint32_t EndOwn(uint32_t site, jobscope_token token, const jobscope_arg* args, uint32_t arg_count) {
  const uint64_t end = Ticks();
  ThreadState* state = t_slot.state;
  if (JOBSCOPE_UNLIKELY(!HasRing(state) || IsElsewhere(state, token.place))) {
    return EndOwnSlow(site, token, args, arg_count);
  }
  if (arg_count == 0) {
    EndOn(state, site, token, end, JOBSCOPE_KIND_SCOPE, nullptr, 0);
  } else {
    EndOn(state, site, token, end, JOBSCOPE_KIND_SCOPE, args, arg_count);
  }
  return 1;
}

void Event(uint32_t site, uint32_t kind, const jobscope_arg* args, uint32_t arg_count) {
  const uint64_t now = Ticks();
  EventAt(site, kind, now, now, args, arg_count);
}

// Returns an id with the thread's serial in the high half, so that threads have separate counters.
// Threads without a state share one; serials cannot reach its high half in the life of a process.
uint64_t NextId() {
  ThreadState* state = t_slot.state;
  if (JOBSCOPE_UNLIKELY(!HasRing(state))) {
    const Routed routed = RouteSlow(0);
    if (routed.state == nullptr) return 0;
    if (routed.route != Route::kUse) {
      static std::atomic<uint32_t> shared{0};
      return uint64_t{0xffffffffu} << 32 | (shared.fetch_add(1, std::memory_order_relaxed) + 1);
    }
    state = routed.state;
  }
  return (state->place >> 16) << 32 | (++state->ids & 0xffffffffu);
}

uint32_t RegisterSite(jobscope_site* site, const char* const* keys, uint32_t key_count) {
  const uint32_t known = __atomic_load_n(&site->id, __ATOMIC_ACQUIRE);
  if (known != 0) return known;
  const uint32_t id = FindOrAddSite(*site, keys, key_count, /*dynamic=*/false);
  // The dictionary lacked memory, not space: the site retries.
  if (id == JOBSCOPE_SITE_WITHOUT_A_NAME && !DictionaryIsMapped()) return id;
  __atomic_store_n(&site->id, id, __ATOMIC_RELEASE);
  return id;
}

uint32_t FindSite(const jobscope_site* site, const char* const* keys, uint32_t key_count) {
  return FindOrAddSite(*site, keys, key_count, /*dynamic=*/true);
}

struct jobscope_trace_writer_table g_writer = {
    sizeof(struct jobscope_trace_writer_table),
    0,
    nullptr,  // mask: see BindWriterTable
    &RegisterSite,
    &FindSite,
    &FindOrAddName,
    &Begin,
    &End,
    &EndArgs,
    &StepBegin,
    &StepEnd,
    &Event,
    &NextId,
    &SetThreadName,
    &StepBoundary,
    &Discard,
    &EndOwn,
};

}  // namespace

void BindWriterTable() { g_writer.mask = reinterpret_cast<const uint32_t*>(&g_page->mask); }
}  // namespace jobscope::recorder

namespace recorder = jobscope::recorder;

extern "C" {

const struct jobscope_trace_writer_table* jobscope_trace_writer() {
  recorder::Init();
  return &recorder::g_writer;
}

uint32_t jobscope_trace_enabled(uint32_t bits) { return recorder::Mask() & bits; }

uint32_t jobscope_trace_site(const char* name, const char* category, const char* file,
                             uint32_t line, uint32_t bit, uint32_t role, const char* const* keys,
                             uint32_t key_count) {
  recorder::Init();
  const jobscope_site site = {sizeof(jobscope_site), 0, name, category, file, line, bit, role, 0};
  return recorder::FindOrAddSite(site, keys, key_count, /*dynamic=*/true);
}

uint32_t jobscope_trace_intern(const char* text, size_t length) {
  return recorder::FindOrAddName(text, length);
}

jobscope_token jobscope_trace_begin(uint32_t site) { return recorder::Begin(site); }

void jobscope_trace_end(uint32_t site, jobscope_token token, const jobscope_arg* args,
                        uint32_t arg_count) {
  recorder::EndArgs(site, token, args, arg_count);
}

jobscope_token jobscope_trace_step_begin(uint32_t site, int64_t number) {
  return recorder::StepBegin(site, number);
}

void jobscope_trace_step_end(uint32_t site, jobscope_token token, int64_t number) {
  recorder::StepEnd(site, token, number);
}

void jobscope_trace_event(uint32_t site, uint32_t kind, const jobscope_arg* args,
                          uint32_t arg_count) {
  recorder::Event(site, kind, args, arg_count);
}

uint64_t jobscope_trace_next_id() { return recorder::NextId(); }

void jobscope_trace_set_thread_name(const char* name) { recorder::SetThreadName(name); }

}  // extern "C"
