// SPDX-License-Identifier: Apache-2.0
#include "collectors/python/stacks/layout.h"

#include <cstring>

namespace jobscope::python {
namespace {

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

std::optional<Layout> LayoutOfTable(const Api& api, const void* runtime, OwnMemory* memory) {
  uint64_t words[kTableWords];
  if (runtime == nullptr ||
      !memory->Read(reinterpret_cast<uintptr_t>(runtime), words, sizeof(words)) ||
      std::memcmp(words, "xdebugpy", 8) != 0 || words[2] != 0) {
    return std::nullopt;
  }
  // 3.14 has three more words for the interpreter and two more for a frame.
  const bool is_313 = api.minor == 13;
  const uint64_t* const interpreter = words + kInterpreterGroup;
  const uint64_t* const thread = interpreter + (is_313 ? 13 : 16);
  const uint64_t* const frame = thread + 9;
  const uint64_t* const code = frame + (is_313 ? 6 : 8);
  Layout layout = Layout312();
  layout.frame_in_cframe.reset();
  layout.threads_head = interpreter[3];
  layout.thread_next = thread[2];
  layout.thread_interpreter = thread[3];
  layout.thread_frame = thread[4];
  layout.thread_ident = thread[5];
  layout.thread_unique = thread[6];
  layout.frame_back = frame[1];
  layout.frame_code = frame[2];
  layout.frame_owner = frame[5];
  layout.first_shim = 3;
  layout.code_filename = code[1];
  layout.code_function = code[3];
  layout.code_line = code[5];
  if (!is_313) {
    layout.code_tag_mask = 3;
    layout.text_kind_shift = 16;
  }
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
    case 14:
      return LayoutOfTable(api, trace.runtime, memory);
    default:
      return std::nullopt;
  }
}

}  // namespace jobscope::python
