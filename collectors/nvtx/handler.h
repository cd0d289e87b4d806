// SPDX-License-Identifier: Apache-2.0
//
// A handler of NVTX 3, and of the shared library of NVTX 2: ranges, marks, domains, categories,
// payloads become events of the calling thread, through the recorder. docs/nvtx.md says what is
// recorded.
//
// Each linked unit that uses NVTX (executable, shared library) has tables of its own, and attaches
// them when it first calls NVTX; all of them share the domains and strings here. Nothing here takes
// a lock, allocates from the heap, or does anything in a forked child (where the recorder's mask
// reads zero) or at exit.
#ifndef COLLECTORS_NVTX_HANDLER_H_
#define COLLECTORS_NVTX_HANDLER_H_

#include "jobscope/detail/writer_abi.h"

namespace jobscope::nvtx {

// Fills the function tables behind `get_export_table`, which NVTX passes to a tool. False: the
// tables are unknown, and nothing was filled. Callable from any thread, any number of times, always
// with the same writer table.
bool Attach(const struct ::jobscope_trace_writer_table* writer, void* get_export_table);

// Does the same for a module of NVTX's extensions (nvtxExtModuleInfo_t). Supports payloads. False:
// another module.
bool AttachExtension(const struct ::jobscope_trace_writer_table* writer, void* module);

}  // namespace jobscope::nvtx

#endif  // COLLECTORS_NVTX_HANDLER_H_
