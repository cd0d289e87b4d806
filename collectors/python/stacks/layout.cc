// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/layout.h"

#include <cstring>

#include "collectors/python/bridge/gil.h"

namespace jobscope::python {
namespace {

// Also of 3.10.
Layout Layout39() {
  Layout layout;
  layout.threads_head = 8;
  layout.thread_next = 8;
  layout.thread_interpreter = 16;
  layout.thread_ident = 176;
  layout.thread_unique = 256;
  layout.thread_frame = 24;
  layout.frame_back = 24;
  layout.frame_code = 32;
  layout.code_filename = 104;
  layout.code_function = 112;
  layout.code_line = 40;
  layout.text_ascii_data = 48;
  layout.text_data = 72;
  return layout;
}

Layout Layout311() {
  Layout layout;
  layout.threads_head = 16;
  layout.thread_next = 8;
  layout.thread_interpreter = 16;
  layout.thread_ident = 152;
  layout.thread_unique = 160;
  layout.unique_is_native = true;
  layout.thread_frame = 56;
  layout.frame_in_cframe = 8;
  layout.frame_back = 48;
  layout.frame_code = 32;
  layout.code_filename = 112;
  layout.code_function = 128;
  layout.code_line = 72;
  layout.text_ascii_data = 48;
  layout.text_data = 72;
  return layout;
}

Layout Layout312() {
  Layout layout = Layout311();
  layout.threads_head = 72;
  layout.thread_ident = 136;
  layout.thread_unique = 144;
  layout.frame_in_cframe = 0;
  layout.frame_back = 8;
  layout.frame_code = 0;
  layout.frame_owner = 70;
  layout.first_shim = 3;
  layout.code_line = 68;
  layout.text_ascii_data = 40;
  layout.text_data = 56;
  return layout;
}

// The table at the beginning of _PyRuntime, as 64-bit words: a cookie, the version, whether it is
// free-threaded; then one group of words per struct, each beginning with the struct's size.
constexpr size_t kTableWords = 64;
constexpr size_t kInterpreterGroup = 6;

// Where the groups begin, and which word of the thread's group is its ident; fixed since the first
// release of each version.
struct TableGroups {
  size_t thread;
  size_t thread_ident;
  size_t frame;
  size_t code;
};
constexpr TableGroups kGroups313 = {19, 5, 28, 34};
constexpr TableGroups kGroups314 = {22, 5, 31, 39};
constexpr TableGroups kGroups315 = {22, 8, 39, 47};

// Returns by how many bits the state of a text is shifted: some releases of 3.14 have the format of
// 3.13, others a wider first field, and the table does not say which. An ASCII text shows it.
std::optional<unsigned> TextKindShift(const Api& api, size_t text_state) {
  constexpr unsigned kOneByteCompactAscii = 1 | 1 << 3 | 1 << 4;
  const Ref text(api, api.Unicode_DecodeUTF8("ascii", 5, "strict"));
  if (!text) {
    api.Err_Clear();
    return std::nullopt;
  }
  uint32_t state;
  std::memcpy(&state, reinterpret_cast<const char*>(text.get()) + text_state, sizeof(state));
  for (const unsigned shift : {2U, 16U}) {
    if ((state >> shift & 31) == kOneByteCompactAscii) return shift;
  }
  return std::nullopt;
}

std::optional<Layout> LayoutOfTable(const Api& api, const TableGroups& groups, const void* runtime,
                                    OwnMemory* memory) {
  uint64_t words[kTableWords];
  if (runtime == nullptr ||
      !memory->Read(reinterpret_cast<uintptr_t>(runtime), words, sizeof(words)) ||
      std::memcmp(words, "xdebugpy", 8) != 0 || words[2] != 0) {
    return std::nullopt;
  }
  const uint64_t* const thread = words + groups.thread;
  const uint64_t* const frame = words + groups.frame;
  const uint64_t* const code = words + groups.code;
  Layout layout = Layout312();
  layout.frame_in_cframe.reset();
  layout.threads_head = words[kInterpreterGroup + 3];
  layout.thread_next = thread[2];
  layout.thread_interpreter = thread[3];
  layout.thread_frame = thread[4];
  layout.thread_ident = thread[groups.thread_ident];
  layout.thread_unique = thread[groups.thread_ident + 1];
  layout.frame_back = frame[1];
  layout.frame_code = frame[2];
  layout.frame_owner = frame[5];
  layout.first_shim = 3;
  layout.code_filename = code[1];
  layout.code_function = code[3];
  layout.code_line = code[5];
  if (api.minor > 13) layout.code_tag_mask = 3;
  const std::optional<unsigned> shift = TextKindShift(api, layout.text_state);
  if (!shift.has_value()) return std::nullopt;
  layout.text_kind_shift = *shift;
  return layout;
}

}  // namespace

std::optional<Layout> FindLayout(const Api& api, const TraceApi& trace, OwnMemory* memory) {
  switch (api.minor) {
    case 9:
    case 10:
      return Layout39();
    case 11:
      return Layout311();
    case 12:
      return Layout312();
    case 13:
      return LayoutOfTable(api, kGroups313, trace.runtime, memory);
    case 14:
      return LayoutOfTable(api, kGroups314, trace.runtime, memory);
    case 15:
      return LayoutOfTable(api, kGroups315, trace.runtime, memory);
    default:
      return std::nullopt;
  }
}

}  // namespace jobscope::python
