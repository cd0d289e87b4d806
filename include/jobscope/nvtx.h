/* SPDX-License-Identifier: Apache-2.0
 *
 * Records the NVTX ranges of a program that is linked with jobscope::server, without environment
 * variables. Add the following to one file of the program, and of each shared library to record;
 * the file must not include NVTX's headers:
 *
 *   #include <jobscope/nvtx.h>
 *   JOBSCOPE_RECORD_NVTX
 *
 * Tested with the headers of CUDA 11.8 and 13.0. If NVTX_INJECTION64_PATH is set, NVTX uses that
 * tool instead. docs/nvtx.md describes the other setups.
 */
#ifndef JOBSCOPE_NVTX_H_
#define JOBSCOPE_NVTX_H_

#include <stdint.h>

#include "jobscope/jobscope_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Attaches the calling linked unit: its NVTX events are recorded while a capture runs. Takes the
 * argument of NVTX's InitializeInjectionNvtx2. Thread-safe. May be called before a server runs, and
 * for any number of units. Returns 1 if attached. Returns 0 in a forked child, or if the recorder
 * cannot be loaded; NVTX's functions then have no effect. */
JOBSCOPE_API int jobscope_nvtx_initialize(void* get_export_table);

/* Does the same for InitializeInjectionNvtxExtension: payloads (NVTX 3.1 and later). */
JOBSCOPE_API int jobscope_nvtx_initialize_extension(void* module);

/* NVTX's own name of the type. */
struct nvtxExtModuleInfo_t;

#ifdef __cplusplus
}
#define JOBSCOPE_DETAIL_EXTERN_C extern "C"
#else
#define JOBSCOPE_DETAIL_EXTERN_C
#endif

/* Defines both pointers of NVTX. NVTX's headers define them weakly, as null, and hidden. */
#define JOBSCOPE_RECORD_NVTX                                                                \
  static int jobscope_detail_nvtx(const void* (*get_export_table)(uint32_t)) {              \
    void* argument; /* a function's address: C has no conversion for it */                  \
    __builtin_memcpy(&argument, &get_export_table, sizeof(argument));                       \
    return jobscope_nvtx_initialize(argument);                                              \
  }                                                                                         \
  static int jobscope_detail_nvtx_extension(struct nvtxExtModuleInfo_t* module) {           \
    return jobscope_nvtx_initialize_extension(module);                                      \
  }                                                                                         \
  JOBSCOPE_DETAIL_EXTERN_C __attribute__((visibility("hidden"))) int (                      \
      *InitializeInjectionNvtx2_fnptr)(const void* (*)(uint32_t));                          \
  JOBSCOPE_DETAIL_EXTERN_C __attribute__((visibility("hidden"))) int (                      \
      *InitializeInjectionNvtxExtension_fnptr)(struct nvtxExtModuleInfo_t*);                \
  int (*InitializeInjectionNvtx2_fnptr)(const void* (*)(uint32_t)) = &jobscope_detail_nvtx; \
  int (*InitializeInjectionNvtxExtension_fnptr)(struct nvtxExtModuleInfo_t*) =              \
      &jobscope_detail_nvtx_extension;

#endif /* JOBSCOPE_NVTX_H_ */
