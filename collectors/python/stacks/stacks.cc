// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/stacks.h"

#include <algorithm>
#include <utility>

#include "collectors/python/bridge/values.h"
#include "collectors/python/stacks/thread_ids.h"
#include "common/clock/monotonic.h"
#include "common/threads/thread_name.h"

namespace jobscope::python {
namespace {

// First Python 3 minor version whose sub-interpreters have GILs of their own.
constexpr int kFirstWithLocksOfTheirOwn = 12;

// Time limit for comparing stacks read without the GIL with Python's own.
constexpr absl::Duration kCheckBudget = absl::Microseconds(200);
// The name of a thread that ended before its own name was known.
constexpr const char* kUnknownName = "thread";

// Disables Python's garbage collector while it lives. The GIL is held throughout, so the program
// does not notice.
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
    : api_(api),
      trace_(trace),
      codes_(codes),
      raw_(std::make_unique<RawStacks>(api, trace, codes, kMaxFrames)) {}

absl::Status StackReader::Open() {
  Object* const modules = api_.Import_GetModuleDict();
  Object* const sys = api_.Dict_GetItemString(modules, "sys");
  current_frames_ = sys == nullptr ? nullptr : api_.Object_GetAttrString(sys, "_current_frames");
  Object* const threading = api_.Dict_GetItemString(modules, "threading");
  active_ = threading == nullptr ? nullptr : api_.Object_GetAttrString(threading, "_active");
  api_.Err_Clear();
  if (current_frames_ == nullptr) {
    return absl::UnimplementedError("sys._current_frames is missing: stacks cannot be read");
  }
  // One successful check is valid for the life of the process.
  static bool checked = false;
  if (!checked && raw_->known()) checked = CheckRaw();
  reads_without_gil_ = checked;
  return absl::OkStatus();
}

Ref StackReader::CurrentFrames() {
  const Ref nothing(api_, api_.Tuple_New(0));
  Ref frames(api_, nothing ? api_.Object_CallObject(current_frames_, nothing.get()) : nullptr);
  if (!frames) api_.Err_Clear();
  return frames;
}

bool StackReader::CheckRaw() {
  if (api_.minor >= kFirstWithLocksOfTheirOwn && HasSubInterpreters(trace_)) return false;
  const WithoutGc quiet(trace_);
  const Ref frames = CurrentFrames();
  if (!frames || !raw_->ReadThreads(&threads_)) return false;
  // While the GIL is held no thread changes its stack. One that runs a function suffices.
  const absl::Time until = SteadyNow() + kCheckBudget;
  std::vector<uint64_t> compared;
  intptr_t position = 0;
  Object* key = nullptr;
  Object* frame = nullptr;
  while (api_.Dict_Next(frames.get(), &position, &key, &frame) != 0) {
    if (!compared.empty() && SteadyNow() >= until) break;
    const auto ident = static_cast<uint64_t>(api_.Long_AsLongLong(key));
    const auto thread = std::find_if(threads_.begin(), threads_.end(),
                                     [&](const auto& one) { return one.ident == ident; });
    RawStack raw;
    if (thread == threads_.end() || !raw_->ReadStack(*thread, &raw)) return false;
    if (raw.cut) raw.ids.push_back(CodeTable::kMoreFrames);
    const ThreadStack with_gil = ReadStack(ident, key, frame);
    if (!std::equal(raw.ids.rbegin(), raw.ids.rend(), with_gil.frames.begin(),
                    with_gil.frames.end(),
                    [](uint32_t id, const StackFrame& at) { return id == at.code; })) {
      return false;
    }
    compared.push_back(ident);
  }
  api_.Err_Clear();
  if (compared.empty()) return false;
  if (raw_->unique_is_native()) return true;
  const std::optional<size_t> offset = OffsetOfTid(compared);
  if (offset.has_value()) RawStacks::SetTidOffset(*offset);
  return offset.has_value();
}

StackRound StackReader::ReadWithoutGil(absl::Duration budget) {
  StackRound round;
  const absl::Time until = SteadyNow() + budget;
  if (!raw_->ReadThreads(&threads_)) {
    round.whole = false;
    return round;
  }
  RawStack raw;
  for (const RawStacks::Thread& thread : threads_) {
    bool read = false;
    int64_t tid = 0;
    if (!looked_at_.contains(thread.ident)) {
      if (!round.stacks.empty() && SteadyNow() >= until) {
        round.whole = false;
      } else {
        looked_at_.insert(thread.ident);
        // Before the stack, after which the thread is known to be the same.
        tid = raw_->ReadTid(thread);
        if (tid == 0) continue;  // it begins, or has ended
        read = raw_->ReadStack(thread, &raw);
      }
    }
    // A thread that has left its last function may keep its state.
    if (read && raw.ids.empty()) continue;
    round.idents.push_back(thread.ident);
    if (!read) continue;
    if (std::any_of(raw.ids.begin(), raw.ids.end(),
                    [this](uint32_t code) { return codes_->IsOurs(code); })) {
      continue;
    }
    ThreadStack stack;
    stack.ident = thread.ident;
    stack.unique = thread.unique;
    if (raw.cut) raw.ids.push_back(CodeTable::kMoreFrames);
    for (auto id = raw.ids.rbegin(); id != raw.ids.rend(); ++id) {
      stack.frames.push_back({*id, nullptr});
    }
    stack.cut = raw.cut;
    stack.tid = tid;
    if (const auto known = known_.find(thread.ident); known != known_.end() &&
                                                      known->second.unique == thread.unique &&
                                                      known->second.tid == tid) {
      stack.name = known->second.name;
    } else {
      round.unnamed = true;
    }
    round.stacks.push_back(std::move(stack));
  }
  if (round.whole) looked_at_.clear();
  return round;
}

void StackReader::Name(absl::Duration budget, StackRound* round) {
  if (known_.size() > 2 * round->idents.size() + 16) known_.clear();
  // A thread may have ended since, and another one may have its number: with the GIL held, one that
  // is still there stays.
  if (!raw_->ReadThreads(&threads_)) threads_.clear();
  HashMap<uint64_t, uint64_t> lives;  // ident -> unique
  for (const RawStacks::Thread& thread : threads_) lives[thread.ident] = thread.unique;
  const absl::Time until = SteadyNow() + budget;
  bool named = false;  // one at least, or it would never end
  for (ThreadStack& stack : round->stacks) {
    if (!stack.name.empty()) continue;
    if (const auto living = lives.find(stack.ident);
        living == lives.end() || living->second != stack.unique) {
      stack.name = kUnknownName;
      continue;
    }
    if (named && SteadyNow() >= until) break;
    named = true;
    const Ref key(api_, api_.Long_FromLongLong(static_cast<int64_t>(stack.ident)));
    if (!key) break;
    Known& known = Identify(stack.ident, key.get());
    known.unique = stack.unique;
    known.tid = stack.tid;
    stack.name = known.name.empty() ? kUnknownName : known.name;
  }
  api_.Err_Clear();
  const auto unnamed = [](const ThreadStack& stack) { return stack.name.empty(); };
  const auto first = std::remove_if(round->stacks.begin(), round->stacks.end(), unnamed);
  if (first != round->stacks.end()) round->whole = false;
  round->stacks.erase(first, round->stacks.end());
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
  const absl::Time until = SteadyNow() + budget;
  const WithoutGc quiet(trace_);
  const Ref frames = CurrentFrames();
  if (!frames) {
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
    if (!round.stacks.empty() && SteadyNow() >= until) {
      round.whole = false;
      ++round.unread;
      continue;
    }
    looked_at_.insert(ident);
    ThreadStack stack = ReadStack(ident, key, frame);
    const bool ours = std::any_of(stack.frames.begin(), stack.frames.end(),
                                  [this](const StackFrame& at) { return codes_->IsOurs(at.code); });
    if (!ours) round.stacks.push_back(std::move(stack));
  }
  if (round.whole) looked_at_.clear();
  // Removes ended threads once there are more than twice as many entries as threads.
  if (known_.size() > 2 * round.idents.size() + 16) known_.clear();
  api_.Err_Clear();
  return round;
}

StackRound StackReader::List() {
  StackRound round;
  round.refused = api_.minor >= kFirstWithLocksOfTheirOwn && HasSubInterpreters(trace_);
  if (round.refused) return round;
  const WithoutGc quiet(trace_);
  const Ref frames = CurrentFrames();
  intptr_t position = 0;
  Object* key = nullptr;
  Object* frame = nullptr;
  while (frames && api_.Dict_Next(frames.get(), &position, &key, &frame) != 0) {
    round.idents.push_back(static_cast<uint64_t>(api_.Long_AsLongLong(key)));
  }
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

StackReader::Known& StackReader::Identify(uint64_t ident, Object* key) {
  // A thread's ident is reused once it has ended; its object in threading is another one then.
  Object* const thread = active_ == nullptr ? nullptr : api_.Dict_GetItem(active_, key);
  const auto [entry, fresh] = known_.try_emplace(ident);
  Known& known = entry->second;
  // For a thread unknown to `threading`, a changed thread id is the only sign of another one.
  const int64_t unnamed_tid = thread == nullptr ? TidOfPthread(ident) : 0;
  if (!fresh && known.thread == thread && (thread != nullptr || known.tid == unnamed_tid)) {
    return known;
  }
  known = {thread, 0, unnamed_tid, {}};
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
