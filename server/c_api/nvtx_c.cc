// SPDX-License-Identifier: Apache-2.0
//
// Implements the entry points through which NVTX reaches us: libjobscope_attach.so, a pointer in
// the program (jobscope/nvtx.h), or NVTX_INJECTION64_PATH with this library's own path.
#include <dlfcn.h>

#include "collectors/nvtx/handler.h"
#include "jobscope/detail/writer_abi.h"
#include "jobscope/nvtx.h"
#include "server/guard/fork_guard.h"
#include "server/process/recorder_loader.h"

#define JOBSCOPE_NVTX_EXPORT __attribute__((visibility("default")))

namespace {

// Called on the application's thread at its first NVTX call, possibly under the loader's lock:
// finds the recorder, which takes microseconds if it is loaded, and starts nothing.
const jobscope::WriterTable* Writer() {
  if (jobscope::InForkedChild()) return nullptr;
  const auto writer = jobscope::LoadWriter();
  return writer.ok() ? *writer : nullptr;
}

// Unrelated processes inherit the variable that names this library. A process of ours has loaded
// the recorder: the Python package did when it started the server.
bool IsOurProcess() {
  return dlopen(JOBSCOPE_TRACE_SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) != nullptr;
}

}  // namespace

// No exception reaches NVTX; the only possible ones are those of exhausted memory.
extern "C" {

int jobscope_nvtx_initialize(void* get_export_table) {
  try {
    return jobscope::nvtx::Attach(Writer(), get_export_table) ? 1 : 0;
  } catch (...) {
    return 0;
  }
}

int jobscope_nvtx_initialize_extension(void* module) {
  try {
    return jobscope::nvtx::AttachExtension(Writer(), module) ? 1 : 0;
  } catch (...) {
    return 0;
  }
}

JOBSCOPE_NVTX_EXPORT int InitializeInjectionNvtx2(void* get_export_table) {
  return IsOurProcess() ? jobscope_nvtx_initialize(get_export_table) : 0;
}

JOBSCOPE_NVTX_EXPORT int InitializeInjectionNvtxExtension(void* module) {
  return IsOurProcess() ? jobscope_nvtx_initialize_extension(module) : 0;
}

}  // extern "C"
