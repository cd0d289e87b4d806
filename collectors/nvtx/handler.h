// SPDX-License-Identifier: Apache-2.0
//
// Handles NVTX 3, and the shared library of NVTX 2: ranges, marks, domains, categories and payloads
// become events of the calling thread, through the recorder. docs/nvtx.md lists what is recorded.
//
// Each linked unit that uses NVTX (executable, shared library) has its own tables and attaches them
// at its first NVTX call; all of them share the domains and strings here. This code takes no lock,
// allocates nothing on the heap, and does nothing in a forked child (where the recorder's mask
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
