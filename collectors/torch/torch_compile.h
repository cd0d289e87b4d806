// SPDX-License-Identifier: Apache-2.0
//
// Compilations by torch.compile, as PyTorch's callbacks tell of them, into the recorder.
#ifndef COLLECTORS_TORCH_TORCH_COMPILE_H_
#define COLLECTORS_TORCH_TORCH_COMPILE_H_

#include <string>

#include "jobscope/detail/writer_abi.h"

namespace jobscope::framework::torch {

// `writer` stays valid for the life of the process; null: nothing is recorded. Before any Python of
// the process can compile.
void RecordCompilations(const struct jobscope_trace_writer_table* writer);

// Called by Python, with the GIL, on the thread that compiles. Each compilation is the scope
// `torch.compile` with `compilation` = 1, `trigger` (text: "dynamo") and `compile_id` (text: "3/1"
// is the first recompilation of frame 3). One that ends on another thread than it began on, beside
// others that run at the same time, is not recorded.
void BeginCompilation();
void EndCompilation(const std::string& trigger, const std::string& compile_id);

}  // namespace jobscope::framework::torch

#endif  // COLLECTORS_TORCH_TORCH_COMPILE_H_
