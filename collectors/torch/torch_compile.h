// SPDX-License-Identifier: Apache-2.0
//
// Records compilations by torch.compile, reported by PyTorch's callbacks.
#ifndef COLLECTORS_TORCH_TORCH_COMPILE_H_
#define COLLECTORS_TORCH_TORCH_COMPILE_H_

#include <string>

#include "jobscope/detail/writer_abi.h"

namespace jobscope::framework::torch {

// Sets the recorder. `writer` must be valid for the life of the process; null: nothing is recorded.
// Call it before any Python code of the process can compile.
void RecordCompilations(const struct jobscope_trace_writer_table* writer);

// Called by Python with the GIL, on the compiling thread. Each compilation is the scope
// `torch.compile` with `compilation` = 1, `trigger` (text: "dynamo") and `compile_id` (text: "3/1"
// is the first recompilation of frame 3). A compilation that ends on another thread than it began
// on, concurrently with others, is dropped.
void BeginCompilation();
void EndCompilation(const std::string& trigger, const std::string& compile_id);

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_COMPILE_H_
