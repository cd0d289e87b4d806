/* SPDX-License-Identifier: Apache-2.0
 *
 * NVTX ranges of a program that is linked with jobscope::server, recorded without any environment
 * variable. In one file of the program, or of each shared library whose ranges are wanted, one that
 * does not include NVTX's headers:
 *
 *   #include <jobscope/nvtx.h>
 *   JOBSCOPE_RECORD_NVTX
 *
 * Tried with the headers of CUDA 11.8 and 13.0. NVTX asks the tool of
 * NVTX_INJECTION64_PATH first, where one is set; docs/nvtx.md tells of the other ways.
 */
#ifndef JOBSCOPE_NVTX_H_
#define JOBSCOPE_NVTX_H_

#include <stdint.h>

#include "jobscope/jobscope_c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Takes the argument of NVTX's InitializeInjectionNvtx2, and attaches the linked unit that it comes
 * from: its events are recorded while a capture runs. May be called from any thread, before a
 * server runs, and for any number of units. 1: attached. 0: not, and NVTX's functions stay empty;
 * in a forked child, or where the recorder can't be loaded. */
JOBSCOPE_API int jobscope_nvtx_initialize(void* get_export_table);

/* The same for InitializeInjectionNvtxExtension: payloads (NVTX 3.1 and later). */
JOBSCOPE_API int jobscope_nvtx_initialize_extension(void* module);

/* NVTX's own name of the type. */
struct nvtxExtModuleInfo_t;

#ifdef __cplusplus
}
#define JOBSCOPE_DETAIL_EXTERN_C extern "C"
#else
#define JOBSCOPE_DETAIL_EXTERN_C
#endif

/* NVTX's headers define both pointers weakly, as null, and hidden. */
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
