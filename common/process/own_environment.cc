// SPDX-License-Identifier: Apache-2.0
#include "common/process/own_environment.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/process/own_memory.h"

namespace jobscope {
namespace {

// Copies end at a page boundary: the next page may not exist. No supported machine has smaller
// pages.
constexpr uint64_t kPageBytes = 4096;
// Bounds the variables read: 16,384 pointers are a quarter of what the kernel accepts at exec (6
// MiB of strings of 96 bytes).
constexpr size_t kMaxVariables = 16'384;
constexpr size_t kMaxValueBytes = 4096;
// Bounds the readings; two that agree suffice. They differ only while a thread changes these very
// variables.
constexpr int kMaxReadings = 8;

// Copies up to `limit` bytes of the text at `address`, until its end or until memory ends.
void ReadText(OwnMemory* memory, uint64_t address, size_t limit, std::string* text) {
  text->clear();
  while (text->size() < limit) {
    const size_t at = text->size();
    const size_t size = std::min<uint64_t>(limit - at, kPageBytes - address % kPageBytes);
    text->resize(at + size);
    const bool copied = memory->Read(address, text->data() + at, size);
    const size_t end = copied ? text->find('\0', at) : at;
    if (end != std::string::npos) {
      text->resize(end);
      return;
    }
    address += size;
  }
}

// Returns the strings of `environ`. Nothing: memory cannot be read.
std::optional<std::vector<uintptr_t>> ReadPointers(OwnMemory* memory) {
  uintptr_t array = 0;
  if (!memory->Read(reinterpret_cast<uintptr_t>(&environ), &array)) return std::nullopt;
  std::vector<uintptr_t> pointers;
  if (array % sizeof(uintptr_t) != 0) return pointers;
  uintptr_t page[kPageBytes / sizeof(uintptr_t)];
  while (array != 0 && pointers.size() < kMaxVariables) {
    const size_t size = kPageBytes - array % kPageBytes;
    if (!memory->Read(array, page, size)) break;  // the array has moved; the next reading finds it
    for (size_t i = 0; i < size / sizeof(uintptr_t); ++i) {
      if (page[i] == 0) return pointers;
      pointers.push_back(page[i]);
    }
    array += size;
  }
  return pointers;
}

// Copies the first bytes of each text, 256 texts at a time: one copy each would take 1.7 us.
class Heads {
 public:
  Heads(OwnMemory* memory, const std::vector<uintptr_t>& texts, size_t size)
      : memory_(memory), size_(size) {
    std::vector<uint64_t> inside;
    for (const uintptr_t text : texts) {
      if (IsInside(text)) inside.push_back(text);
    }
    bytes_.resize(inside.size() * size_);
    all_ = memory_->ReadEach(inside, size_, bytes_.data());
  }

  // Reads the beginning of the next text, which is at `address`.
  void Next(uintptr_t address, std::string* text) {
    if (!IsInside(address)) return ReadText(memory_, address, size_, text);
    const size_t at = next_++ * size_;
    if (!all_) return ReadText(memory_, address, size_, text);  // one of them is gone
    text->assign(bytes_, at, size_);
    text->resize(std::min(text->find('\0'), size_));
  }

 private:
  // Returns whether the head lies within one page.
  bool IsInside(uintptr_t address) const { return address % kPageBytes + size_ <= kPageBytes; }

  OwnMemory* const memory_;
  const size_t size_;
  std::string bytes_;
  bool all_ = false;
  size_t next_ = 0;
};

// Takes the first of equal names, as getenv does.
bool ReadOnce(OwnMemory* memory, absl::Span<const std::string_view> names, Variables* variables) {
  const auto pointers = ReadPointers(memory);
  if (!pointers.has_value()) return false;
  size_t head_bytes = 0;
  for (const std::string_view name : names) head_bytes = std::max(head_bytes, name.size() + 1);
  Heads heads(memory, *pointers, head_bytes);
  std::string text;
  for (const uintptr_t pointer : *pointers) {
    heads.Next(pointer, &text);
    const size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = text.substr(0, equals);
    if (std::find(names.begin(), names.end(), name) == names.end()) continue;
    ReadText(memory, pointer + equals + 1, kMaxValueBytes, &text);
    variables->emplace(name, text);
  }
  return true;
}

}  // namespace

absl::StatusOr<Variables> ReadOwnEnvironment(absl::Span<const std::string_view> names) {
  OwnMemory memory;
  std::optional<Variables> last;
  for (int i = 0; i < kMaxReadings; ++i) {
    Variables now;
    if (!ReadOnce(&memory, names, &now)) {
      return absl::UnimplementedError("this process may not read its own memory");
    }
    if (last == now) return now;
    last = std::move(now);
  }
  return absl::AbortedError("the environment is being changed");
}

Variables CallersVariables(absl::Span<const std::string_view> names) {
  absl::StatusOr<Variables> variables = ReadOwnEnvironment(names);
  if (variables.ok()) return *std::move(variables);
  Variables found;
  if (!absl::IsUnimplemented(variables.status())) return found;
  for (const std::string_view name : names) {
    if (const char* const value = std::getenv(name.data()); value != nullptr) {
      found.emplace(name, value);
    }
  }
  return found;
}

Variables OwnVariables(absl::Span<const std::string_view> names) {
  // The caller of a program with more rights could otherwise choose who may connect to it, and
  // which libraries it loads.
  return getauxval(AT_SECURE) != 0 ? Variables() : CallersVariables(names);
}

std::optional<std::string> OwnVariable(const char* name) {
  Variables variables = OwnVariables({name});
  if (variables.empty()) return std::nullopt;
  return std::move(variables.begin()->second);
}

}  // namespace jobscope
