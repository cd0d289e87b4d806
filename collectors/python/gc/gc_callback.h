// SPDX-License-Identifier: Apache-2.0
//
// Records Python's garbage collections as scopes of the collecting thread.
#ifndef COLLECTORS_PYTHON_GC_GC_CALLBACK_H_
#define COLLECTORS_PYTHON_GC_GC_CALLBACK_H_

#include "absl/status/status.h"
#include "collectors/python/bridge/api.h"
#include "jobscope/detail/writer_abi.h"

namespace jobscope::python {

// Appends a function to gc.callbacks unless it is there. Python calls it at the begin and end of
// each collection, on the collecting thread; it records the event `gc` with `generation` and
// `collected` while the writer's mask has level 1. `writer` must be valid for the life of the
// process. INTERNAL: the text of Python's exception; nothing is left behind. Requires the GIL.
absl::Status AddGcCallback(const Api& api, const struct jobscope_trace_writer_table* writer);

// Removes the function; does nothing if the program has removed it, or while a recorded collection
// runs: the function then records the end of that collection and nothing later, and the next
// session's RemoveGcCallback removes it. Requires the GIL.
void RemoveGcCallback(const Api& api);

}  // namespace jobscope::python

#endif  // COLLECTORS_PYTHON_GC_GC_CALLBACK_H_
