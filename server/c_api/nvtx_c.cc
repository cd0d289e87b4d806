// SPDX-License-Identifier: Apache-2.0
//
// Where NVTX comes in: through libjobscope_attach.so, through a pointer in the program
// (jobscope/nvtx.h), or by NVTX_INJECTION64_PATH with this library's own path.
#include <dlfcn.h>

#include "collectors/nvtx/handler.h"
#include "jobscope/detail/writer_abi.h"
#include "jobscope/nvtx.h"
#include "server/guard/fork_guard.h"
#include "server/process/recorder_loader.h"

#define JOBSCOPE_NVTX_EXPORT __attribute__((visibility("default")))

namespace {

// Called by the application's thread, at its first NVTX call, maybe under the loader's lock: finds
// the recorder, which takes microseconds where it is loaded, and starts nothing.
const jobscope::WriterTable* Writer() {
  if (jobscope::InForkedChild()) return nullptr;
  const auto writer = jobscope::LoadWriter();
  return writer.ok() ? *writer : nullptr;
}

// The variable that names this library is inherited by processes that have nothing to do with us.
// Whoever has, has loaded the recorder: the Python package did so when it started the server.
bool IsOurProcess() {
  return dlopen(JOBSCOPE_TRACE_SONAME, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) != nullptr;
}

}  // namespace

// No exception crosses into NVTX; those of an exhausted memory are the only ones there could be.
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
