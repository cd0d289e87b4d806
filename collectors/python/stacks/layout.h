// SPDX-License-Identifier: Apache-2.0
//
// Describes where CPython keeps the stacks of its threads, by version.
#ifndef COLLECTORS_PYTHON_STACKS_LAYOUT_H_
#define COLLECTORS_PYTHON_STACKS_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "collectors/python/bridge/api.h"
#include "collectors/python/stacks/trace_api.h"
#include "common/process/own_memory.h"

namespace jobscope::python {

// Offsets in bytes. Those of 3.9 to 3.12 are fixed since the first release of each; later versions
// provide most of theirs (_PyRuntime begins with a table for debuggers).
struct Layout {
  // PyInterpreterState, PyThreadState.
  size_t threads_head = 0;
  size_t thread_next = 0;
  size_t thread_interpreter = 0;
  size_t thread_ident = 0;
  size_t thread_unique = 0;       // distinguishes threads that have the same ident
  bool unique_is_native = false;  // it equals the OS thread id
  size_t thread_frame = 0;
  std::optional<size_t> frame_in_cframe;  // 3.11, 3.12: thread_frame is that of a C frame
  // PyFrameObject (up to 3.10), _PyInterpreterFrame.
  size_t frame_back = 0;
  size_t frame_code = 0;
  std::optional<size_t> frame_owner;  // one byte
  uint8_t first_shim = 255;           // owners from here on are not Python functions
  uint64_t code_tag_mask = 0;         // low bits of frame_code that are not part of the address
  // PyCodeObject.
  size_t code_filename = 0;
  size_t code_function = 0;  // co_qualname; co_name before 3.11
  size_t code_line = 0;
  // PyASCIIObject, PyCompactUnicodeObject.
  size_t text_length = 16;
  size_t text_state = 32;
  unsigned text_kind_shift = 2;
  size_t text_ascii_data = 0;
  size_t text_data = 0;
};

inline constexpr size_t kObjectType = 8;  // PyObject::ob_type

// Returns the layout; nullopt: unknown for this version. The caller must verify it. Requires the
// GIL.
std::optional<Layout> FindLayout(const Api& api, const TraceApi& trace, OwnMemory* memory);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_STACKS_LAYOUT_H_
