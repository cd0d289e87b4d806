/* SPDX-License-Identifier: Apache-2.0 */
#include "jobscope/nvtx.h"

JOBSCOPE_RECORD_NVTX

int UsesNvtx(void* module);
int UsesNvtx(void* module) { return jobscope_nvtx_initialize_extension(module); }
