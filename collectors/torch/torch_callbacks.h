// SPDX-License-Identifier: Apache-2.0
//
// What PyTorch calls around each operator, and where that goes: into the recorder, as scopes of the
// thread that runs the operator.
#ifndef COLLECTORS_TORCH_TORCH_CALLBACKS_H_
#define COLLECTORS_TORCH_TORCH_CALLBACKS_H_

#include <cstdint>

#include "collectors/torch/torch_library.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope::framework::torch {

struct CallbackOptions {
  bool operators = false;  // besides user scopes
  bool shapes = false;     // of operators' inputs
};

// Registers the callbacks of one session. They record
// what the mask has on, so they may be there before the session begins. `api` and `writer` stay
// valid for good: an operator that runs when the callbacks are removed still calls its end. Neither
// function waits for operators. One session at a time.
void AddCallbacks(const Api& api, const struct jobscope_trace_writer_table* writer,
                  const CallbackOptions& options);
void RemoveCallbacks();

// Whether works of gloo were seen in this process, whose process groups only their calls know.
bool WantsProcessGroups();
// Has those calls noticed from now on, by a callback for operators that needs their inputs: it
// costs each operator some 0.1 us. Until RemoveCallbacks; nothing without AddCallbacks before.
void AddProcessGroups();

// Scopes so far that ended on another thread than the one that they began on, and were not said to
// be asynchronous. They are not recorded: on no thread's line would they nest.
uint64_t CrossedThreads();

// Operators of this session whose shapes PyTorch refused to tell. After kMaxRefusals none is asked
// for until the session's end: each costs an exception, of some 50 us.
inline constexpr uint32_t kMaxRefusals = 100;
uint32_t RefusedShapes();

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_CALLBACKS_H_
