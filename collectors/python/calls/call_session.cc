// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/calls/call_session.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "collectors/python/bridge/gil.h"
#include "collectors/python/bridge/values.h"
#include "jobscope/detail/ticks.h"

namespace jobscope::python {
namespace {

// Bounds the lookups of a thread's name: `threading` knows a thread within its first few calls, if
// ever.
constexpr int kNameTries = 32;

uint64_t NextSerial() {
  static std::atomic<uint64_t> serial{0};
  return serial.fetch_add(1, std::memory_order_relaxed) + 1;
}

struct ThreadCache {
  uint64_t serial = 0;
  TracedThread* thread = nullptr;
};
thread_local ThreadCache t_cache;

}  // namespace

CallSession::CallSession(const Api& api, const TraceApi& trace, bool uses_tsc,
                         std::vector<CallRecord> ring)
    : api_(api),
      uses_tsc_(uses_tsc),
      serial_(NextSerial()),
      codes_(api, trace),
      ring_(std::move(ring)) {
  threads_.reserve(kMaxThreads);
}

bool CallSession::Activate(const Limits& limits, const std::vector<uint64_t>& idents) {
  limits_ = limits;
  begin_ticks_ = detail::ReadTicks(uses_tsc_);
  for (const uint64_t ident : idents) early_.insert(ident);
  Phase before = Phase::kNotYet;
  return phase_.compare_exchange_strong(before, Phase::kActive, std::memory_order_relaxed);
}

TracedThread* CallSession::NewThread(uint64_t ident, int64_t tid) {
  if (threads_.size() == kMaxThreads) {
    Count(&refused_);
    return nullptr;
  }
  auto thread = std::make_unique<TracedThread>();
  thread->index = static_cast<uint32_t>(threads_.size());
  thread->tid = tid;
  thread->early = early_.erase(ident) > 0;
  thread->calls.reserve(64);
  TracedThread* const made = thread.get();
  threads_.push_back(std::move(thread));
  by_ident_[ident] = made;
  return made;
}

TracedThread* CallSession::ThisThread() {
  if (t_cache.serial == serial_) return t_cache.thread;
  // One that is known by this ident has ended, or is known from its stack.
  const uint64_t ident = pthread_self();
  const auto known = by_ident_.find(ident);
  const bool over = known != by_ident_.end() && known->second->over;
  t_cache = {serial_, over ? known->second : NewThread(ident, syscall(SYS_gettid))};
  return t_cache.thread;
}

// Neither a C++ exception nor one of Python's may reach the program, whose threads call this.
template <typename Body>
void CallSession::OrDeactivate(Body body) {
  try {
    body();
  } catch (const std::exception&) {
    api_.Err_Clear();
    out_of_memory_ticks_.store(detail::ReadTicks(uses_tsc_), std::memory_order_relaxed);
    Deactivate();
  }
}

void CallSession::Enter(const Object* code) {
  OrDeactivate([&] { DoEnter(code); });
}

void CallSession::Leave(Object* code) {
  OrDeactivate([&] { DoLeave(code); });
}

void CallSession::DoEnter(const Object* code) {
  TracedThread* const thread = ThisThread();
  if (thread == nullptr || thread->over) return;
  if (thread->calls.size() >= TracedThread::kMaxDepth) {
    ++thread->deeper;
    return;
  }
  thread->calls.push_back({code, detail::ReadTicks(uses_tsc_), false});
}

void CallSession::DoLeave(Object* code) {
  const uint64_t now = detail::ReadTicks(uses_tsc_);
  TracedThread* const thread = ThisThread();
  if (thread == nullptr || thread->over) return;
  if (thread->deeper > 0) {
    --thread->deeper;
    Count(&too_deep_);
    return;
  }
  // Missed ends (somebody removed the hook for a while) leave calls on the stack, and so do
  // greenlets, whose calls end after those around them.
  std::vector<TracedThread::Call>& calls = thread->calls;
  size_t depth = calls.size();
  while (depth > 0 && calls[depth - 1].code != code) --depth;
  TracedThread::Call call = {code, begin_ticks_, true};
  if (depth > 0) {
    thread->dropped += calls.size() - depth;
    Count(&unpaired_, calls.size() - depth);
    call = calls[--depth];
    calls.resize(depth);
  } else if (thread->dropped > 0) {
    --thread->dropped;  // the end of one of these
    return;
  } else if (!calls.empty()) {
    Count(&unpaired_);
    return;
  } else if (!thread->early) {
    return;  // it began before the thread's hook
  }
  if (now - call.begin_ticks < limits_.min_ticks) {
    Count(&short_);
    return;
  }
  Write(thread, codes_.IdOf(code), call, depth, now, call.cut);
}

void CallSession::Write(TracedThread* thread, uint32_t code, const TracedThread::Call& call,
                        size_t depth, uint64_t end_ticks, bool truncated) {
  if (codes_.IsOurs(code)) return;
  if (!thread->named.load(std::memory_order_relaxed) && thread->name_tries < kNameTries) {
    FindName(thread);
  }
  Count(&attempted_);
  if (attempted() >= limits_.max_calls) {
    capped_ticks_.store(end_ticks, std::memory_order_relaxed);
    Deactivate();
  }
  const bool taken = ring_.Add(
      {call.begin_ticks, end_ticks, code, thread->index, static_cast<uint32_t>(depth), truncated});
  if (!taken) Count(&lost_);
}

void CallSession::FindName(TracedThread* thread) {
  ++thread->name_tries;
  Object* const threading = api_.Dict_GetItemString(api_.Import_GetModuleDict(), "threading");
  const Ref active(
      api_, threading == nullptr ? nullptr : api_.Object_GetAttrString(threading, "_active"));
  const Ref ident(api_, api_.Long_FromLongLong(static_cast<long long>(pthread_self())));
  Object* const known = active && ident ? api_.Dict_GetItem(active.get(), ident.get()) : nullptr;
  const Ref name(api_, known == nullptr ? nullptr : api_.Object_GetAttrString(known, "_name"));
  const std::string text = name ? TextOf(api_, name.get()) : std::string();
  api_.Err_Clear();
  SetName(thread, text);
}

void CallSession::SetName(TracedThread* thread, const std::string& text) {
  if (text.empty()) return;
  memcpy(thread->name.data(), text.data(), std::min(text.size(), TracedThread::kNameBytes - 1));
  thread->named.store(true, std::memory_order_release);
}

void CallSession::WriteOpen(const StackRound& stacks, uint64_t now_ticks) {
  for (const ThreadStack& stack : stacks.stacks) {
    auto known = by_ident_.find(stack.ident);
    TracedThread* thread = known == by_ident_.end() ? nullptr : known->second;
    if (thread == nullptr && early_.contains(stack.ident) && stack.tid != 0) {
      thread = NewThread(stack.ident, stack.tid);
    }
    if (thread == nullptr) continue;
    if (!thread->named.load(std::memory_order_relaxed)) SetName(thread, stack.name);
    // Compares from the innermost frame: of a deep stack only the inner part is known. Code objects
    // that no longer run must not be accessed.
    size_t call = thread->calls.size();
    size_t frame = stack.frames.size() - std::min<size_t>(stack.frames.size(), thread->deeper);
    const auto write = [&](const TracedThread::Call& open) {
      if (now_ticks - open.begin_ticks < limits_.min_ticks) {
        Count(&short_);
      } else {
        Write(thread, stack.frames[frame - 1].code, open, frame - 1, now_ticks,
              /*truncated=*/true);
      }
    };
    for (; call > 0 && frame > 0; --call, --frame) {
      const TracedThread::Call& open = thread->calls[call - 1];
      if (open.code != stack.frames[frame - 1].object) break;
      write(open);
    }
    const bool at_begin = call == 0 && thread->early;
    for (; at_begin && frame > (stack.cut ? 1 : 0); --frame) write({nullptr, begin_ticks_, true});
    if (stack.cut && (call > 0 || at_begin)) Count(&cut_);
    thread->calls.clear();
    thread->over = true;
  }
}

}  // namespace jobscope::python
