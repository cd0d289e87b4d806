// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/raw_stacks.h"

#include <algorithm>
#include <cstring>

#include "common/text/utf8.h"

namespace jobscope::python {
namespace {

// Tries if the innermost frame changes during the read: usual in programs that call short functions
// all the time, and not an error.
constexpr int kTriesForCalm = 3;
// Tries if the data read are not a valid stack.
constexpr int kMaxTries = 10;
constexpr size_t kMaxTextBytes = 4096;
constexpr size_t kMaxKnownCodes = 131072;

// CPython's own code from 3.12 on: between a C caller and a Python function, and around __init__.
constexpr char kShimFile[] = "<shim>";
constexpr char kInitFile[] = "__init__";
constexpr uint32_t kNoFunction = UINT32_MAX;

template <typename T>
T At(const char* bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

}  // namespace

RawStacks::RawStacks(const Api& api, const TraceApi& trace, CodeTable* codes, size_t max_frames)
    : codes_(codes), max_frames_(max_frames) {
  const std::optional<Layout> layout = FindLayout(api, trace, &memory_);
  if (!layout.has_value()) return;
  layout_ = *layout;
  interpreter_ = reinterpret_cast<uintptr_t>(trace.InterpreterState_Main());
  code_type_ = reinterpret_cast<uintptr_t>(trace.code_type);
  text_type_ = reinterpret_cast<uintptr_t>(trace.text_type);
  frame_bytes_ = std::max(
      {layout_.frame_back + 8, layout_.frame_code + 8, layout_.frame_owner.value_or(0) + 1});
  code_bytes_ = std::max({layout_.code_filename + 8, layout_.code_function + 8,
                          layout_.code_line + 4, kObjectType + 8});
  // Rejects implausible sizes: an invalid table would make us read far away.
  constexpr size_t kLimit = 4096;
  known_ = interpreter_ != 0 && code_type_ != 0 && text_type_ != 0 && frame_bytes_ < kLimit &&
           code_bytes_ < kLimit && layout_.thread_unique < kLimit &&
           layout_.thread_ident < kLimit && layout_.thread_next < kLimit &&
           layout_.thread_interpreter < kLimit;
}

bool RawStacks::ReadThreads(std::vector<Thread>* threads) {
  const size_t bytes = std::max({layout_.thread_next, layout_.thread_interpreter,
                                 layout_.thread_ident, layout_.thread_unique}) +
                       8;
  buffer_.resize(bytes);
  for (int tries = 0; tries < kMaxTries; ++tries) {
    threads->clear();
    uint64_t address = 0;
    bool whole = memory_.Read(interpreter_ + layout_.threads_head, &address);
    while (whole && address != 0 && threads->size() < kMaxThreads) {
      // A state that was freed meanwhile no longer belongs to this interpreter.
      whole = memory_.Read(address, buffer_.data(), bytes) &&
              At<uint64_t>(buffer_.data(), layout_.thread_interpreter) == interpreter_;
      if (!whole) break;
      threads->push_back({address, At<uint64_t>(buffer_.data(), layout_.thread_ident),
                          At<uint64_t>(buffer_.data(), layout_.thread_unique)});
      address = At<uint64_t>(buffer_.data(), layout_.thread_next);
    }
    if (whole) return true;
  }
  return false;
}

uint64_t RawStacks::TopFrame(uint64_t thread) {
  uint64_t frame = 0;
  if (!memory_.Read(thread + layout_.thread_frame, &frame)) return 0;
  if (layout_.frame_in_cframe.has_value() &&
      (frame == 0 || !memory_.Read(frame + *layout_.frame_in_cframe, &frame))) {
    return 0;
  }
  return frame;
}

int64_t RawStacks::ReadTid(const Thread& thread) {
  if (layout_.unique_is_native) return static_cast<int64_t>(thread.unique);
  int32_t tid = 0;
  return memory_.Read(thread.ident + tid_offset_.load(std::memory_order_relaxed), &tid) ? tid : 0;
}

bool RawStacks::IsStill(const Thread& thread) {
  uint64_t ident = 0;
  uint64_t unique = 0;
  return memory_.Read(thread.address + layout_.thread_ident, &ident) && ident == thread.ident &&
         memory_.Read(thread.address + layout_.thread_unique, &unique) && unique == thread.unique;
}

bool RawStacks::ReadChain(uint64_t frame, RawStack* stack) {
  stack->codes.clear();
  stack->cut = false;
  char bytes[4096];
  // Counts also frames that are not functions: a cycle of them must end.
  for (size_t read = 0; frame != 0; ++read) {
    if (stack->codes.size() == max_frames_ || read == 4 * max_frames_) {
      stack->cut = true;
      return true;
    }
    if (!memory_.Read(frame, bytes, frame_bytes_)) return false;
    if (!layout_.frame_owner.has_value() ||
        At<uint8_t>(bytes, *layout_.frame_owner) < layout_.first_shim) {
      stack->codes.push_back(At<uint64_t>(bytes, layout_.frame_code) & ~layout_.code_tag_mask);
    }
    frame = At<uint64_t>(bytes, layout_.frame_back);
  }
  return true;
}

bool RawStacks::ReadKey(const char* code, uint64_t address, CodeKey* key) const {
  if (At<uint64_t>(code, kObjectType) != code_type_) return false;
  *key = {address, At<uint64_t>(code, layout_.code_filename),
          At<uint64_t>(code, layout_.code_function), At<int32_t>(code, layout_.code_line)};
  return true;
}

bool RawStacks::ReadText(uint64_t address, std::string* text) {
  char head[64];
  if (!memory_.Read(address, head, layout_.text_state + 4)) return false;
  if (At<uint64_t>(head, kObjectType) != text_type_) return false;
  const uint32_t state = At<uint32_t>(head, layout_.text_state) >> layout_.text_kind_shift;
  const uint32_t kind = state & 7;
  const bool compact = (state >> 3 & 1) != 0;
  const bool ascii = (state >> 4 & 1) != 0;
  if (!compact || (kind != 1 && kind != 2 && kind != 4)) return false;
  const size_t length =
      std::min<uint64_t>(At<uint64_t>(head, layout_.text_length), kMaxTextBytes / kind);
  std::string data(length * kind, '\0');
  if (!memory_.Read(address + (ascii ? layout_.text_ascii_data : layout_.text_data), data.data(),
                    data.size())) {
    return false;
  }
  text->clear();
  for (size_t i = 0; i < length; ++i) {
    const uint32_t c = kind == 1   ? At<uint8_t>(data.data(), i)
                       : kind == 2 ? At<uint16_t>(data.data(), 2 * i)
                                   : At<uint32_t>(data.data(), 4 * i);
    char utf8[4];
    text->append(utf8, EncodeUtf8(c, utf8));
  }
  return true;
}

bool RawStacks::Resolve(RawStack* stack) {
  buffer_.resize(stack->codes.size() * code_bytes_);
  if (!memory_.ReadEach(stack->codes, code_bytes_, buffer_.data())) return false;
  stack->ids.clear();
  for (size_t i = 0; i < stack->codes.size(); ++i) {
    CodeKey key;
    if (!ReadKey(buffer_.data() + i * code_bytes_, stack->codes[i], &key)) return false;
    auto known = ids_.find(key);
    if (known == ids_.end()) {
      std::string path;
      std::string function;
      CodeKey again;
      std::vector<char> code(code_bytes_);
      // The texts belong to this code object if it is unchanged after reading them.
      if (!ReadText(std::get<1>(key), &path) || !ReadText(std::get<2>(key), &function) ||
          !memory_.Read(stack->codes[i], code.data(), code_bytes_) ||
          !ReadKey(code.data(), stack->codes[i], &again) || again != key) {
        return false;
      }
      if (ids_.size() >= kMaxKnownCodes) ids_.clear();
      // The owner of a frame that is just being created may not mark it as a shim yet.
      const uint32_t id = path == kShimFile || path == kInitFile
                              ? kNoFunction
                              : codes_->IdOf(path, std::get<3>(key), function);
      known = ids_.emplace(key, id).first;
    }
    if (known->second != kNoFunction) stack->ids.push_back(known->second);
  }
  return true;
}

bool RawStacks::ReadStack(const Thread& thread, RawStack* stack) {
  stack->ident = thread.ident;
  stack->unique = thread.unique;
  // A frame that was freed during the read may look like the outermost one. A thread's outermost
  // frame does not change in its life, except for a few short-lived ones.
  if (outermost_.size() > 4 * kMaxThreads) outermost_.clear();
  uint64_t& outermost = outermost_[thread.unique];
  for (int tries = 0; tries < kMaxTries; ++tries) {
    const uint64_t top = TopFrame(thread.address);
    if (!ReadChain(top, stack)) continue;
    if (stack->codes.empty()) {
      stack->ids.clear();
      // While it enters a function from C, it has no frame for some nanoseconds, or (from 3.15 on)
      // only the one that each thread has.
      if (TopFrame(thread.address) != top && tries + 1 < kMaxTries) continue;
      return true;
    }
    const bool calm = TopFrame(thread.address) == top || tries >= kTriesForCalm;
    const bool same_end =
        stack->cut || outermost == 0 || outermost == stack->codes.back() || tries + 1 == kMaxTries;
    if (!calm || !same_end || !Resolve(stack)) continue;
    if (!IsStill(thread)) return false;
    if (!stack->cut) outermost = stack->codes.back();
    return true;
  }
  return false;
}

}  // namespace jobscope::python
