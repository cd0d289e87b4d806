// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks.h"

#include <algorithm>
#include <utility>

#include "collectors/python/gil.h"
#include "collectors/python/thread_ids.h"
#include "collectors/python/values.h"
#include "common/clock.h"
#include "common/thread_name.h"

namespace jobscope::python {
namespace {

// Of sub-interpreters.
constexpr int kFirstWithLocksOfTheirOwn = 12;

// Python's garbage collector, off for as long as it lives. The GIL is held throughout, so that
// nobody sees it.
class WithoutGc {
 public:
  explicit WithoutGc(const TraceApi& trace)
      : enable_(trace.GC_Disable != nullptr && trace.GC_Disable() != 0 ? trace.GC_Enable
                                                                       : nullptr) {}
  ~WithoutGc() {
    if (enable_ != nullptr) enable_();
  }
  WithoutGc(const WithoutGc&) = delete;
  WithoutGc& operator=(const WithoutGc&) = delete;

 private:
  int (*const enable_)();
};

}  // namespace

StackReader::StackReader(const Api& api, const TraceApi& trace, CodeTable* codes)
    : api_(api), trace_(trace), codes_(codes) {}

absl::Status StackReader::Open() {
  Object* const modules = api_.Import_GetModuleDict();
  Object* const sys = api_.Dict_GetItemString(modules, "sys");
  current_frames_ = sys == nullptr ? nullptr : api_.Object_GetAttrString(sys, "_current_frames");
  Object* const threading = api_.Dict_GetItemString(modules, "threading");
  active_ = threading == nullptr ? nullptr : api_.Object_GetAttrString(threading, "_active");
  api_.Err_Clear();
  if (current_frames_ == nullptr) {
    return absl::UnimplementedError("sys._current_frames is missing: stacks can't be read");
  }
  return absl::OkStatus();
}

void StackReader::Close() {
  for (Object** object : {&current_frames_, &active_}) {
    if (*object != nullptr) api_.DecRef(*object);
    *object = nullptr;
  }
}

StackRound StackReader::Read(absl::Duration budget) {
  StackRound round;
  if (api_.minor >= kFirstWithLocksOfTheirOwn && HasSubInterpreters(trace_)) {
    round.refused = true;
    return round;
  }
  const uint64_t until_ns = MonotonicNs() + static_cast<uint64_t>(absl::ToInt64Nanoseconds(budget));
  const WithoutGc quiet(trace_);
  const Ref nothing(api_, api_.Tuple_New(0));
  const Ref frames(api_,
                   nothing ? api_.Object_CallObject(current_frames_, nothing.get()) : nullptr);
  if (!frames) {
    api_.Err_Clear();
    round.whole = false;
    return round;
  }
  intptr_t position = 0;
  Object* key = nullptr;
  Object* frame = nullptr;
  while (api_.Dict_Next(frames.get(), &position, &key, &frame) != 0) {
    const auto ident = static_cast<uint64_t>(api_.Long_AsLongLong(key));
    round.idents.push_back(ident);
    if (looked_at_.contains(ident)) continue;
    if (!round.stacks.empty() && MonotonicNs() >= until_ns) {
      round.whole = false;
      continue;
    }
    looked_at_.insert(ident);
    ThreadStack stack = ReadStack(ident, key, frame);
    const bool ours = std::any_of(stack.frames.begin(), stack.frames.end(),
                                  [this](const StackFrame& at) { return codes_->IsOurs(at.code); });
    if (!ours) round.stacks.push_back(std::move(stack));
  }
  if (round.whole) looked_at_.clear();
  // Threads that are gone; at most twice as many are kept as there are.
  if (known_.size() > 2 * round.idents.size() + 16) known_.clear();
  api_.Err_Clear();
  return round;
}

ThreadStack StackReader::ReadStack(uint64_t ident, Object* key, Object* frame) {
  ThreadStack stack;
  const Known& known = Identify(ident, key);
  stack.ident = ident;
  stack.tid = known.tid;
  stack.name = known.name;
  api_.IncRef(frame);
  Ref at(api_, frame);
  while (at) {
    if (stack.frames.size() == kMaxFrames) {
      stack.cut = true;
      stack.frames.push_back({CodeTable::kMoreFrames, nullptr});
      break;
    }
    const Ref code(api_, trace_.Frame_GetCode(at.get()));
    stack.frames.push_back({codes_->IdOf(code.get()), code.get()});
    at = Ref(api_, trace_.Frame_GetBack(at.get()));
  }
  std::reverse(stack.frames.begin(), stack.frames.end());
  return stack;
}

const StackReader::Known& StackReader::Identify(uint64_t ident, Object* key) {
  // A thread's number is used again once it has ended; its object in threading is another one then.
  Object* const thread = active_ == nullptr ? nullptr : api_.Dict_GetItem(active_, key);
  const auto [entry, fresh] = known_.try_emplace(ident);
  Known& known = entry->second;
  // Of one that threading does not know, only the id tells that it is another one.
  const int64_t unnamed_tid = thread == nullptr ? TidOfPthread(ident) : 0;
  if (!fresh && known.thread == thread && (thread != nullptr || known.tid == unnamed_tid)) {
    return known;
  }
  known = {thread, unnamed_tid, {}};
  if (thread != nullptr) {
    const Ref tid(api_, api_.Object_GetAttrString(thread, "_native_id"));
    if (tid) known.tid = IntegerOf(api_, tid.get());
    const Ref name(api_, api_.Object_GetAttrString(thread, "_name"));
    if (name) known.name = TextOf(api_, name.get());
    api_.Err_Clear();
  }
  if (known.tid == 0) known.tid = TidOfPthread(ident);
  if (known.name.empty()) known.name = ThreadName(known.tid);
  return known;
}

}  // namespace jobscope::python
