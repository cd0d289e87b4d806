// SPDX-License-Identifier: Apache-2.0
//
// Receives PyTorch's callbacks around each operator and records them as scopes of the thread that
// runs the operator.
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

// Registers the callbacks of one session. They record what the mask enables, so they may be
// registered before the session begins. `api` and `writer` must stay valid for ever: an operator
// that runs when the callbacks are removed still calls its end. Neither function waits for
// operators. One session at a time.
void AddCallbacks(const Api& api, const struct jobscope_trace_writer_table* writer,
                  const CallbackOptions& options);
void RemoveCallbacks();

// Returns whether works of gloo were seen in this process, whose process groups only their calls
// know.
bool WantsProcessGroups();
// Observes those calls from now on, by a callback for operators that needs their inputs: it costs
// each operator about 0.1 us. Until RemoveCallbacks; does nothing without AddCallbacks before.
void AddProcessGroups();

// Returns whether the recorder can drop an open scope. False: an older recorder of another library.
bool CanDiscard(const struct jobscope_trace_writer_table* writer);

// Returns the number of scopes that ended on another thread than they began on, without being
// marked asynchronous. They are not recorded, because they would nest on no thread's line.
uint64_t CrossedThreads();

// Operators of this session whose shapes PyTorch refused to give. After kMaxRefusals none is
// requested until the session's end: each costs an exception of some 50 us.
inline constexpr uint32_t kMaxRefusals = 100;
uint32_t RefusedShapes();

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_CALLBACKS_H_
