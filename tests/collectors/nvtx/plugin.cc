// SPDX-License-Identifier: Apache-2.0
//
// A library with NVTX ranges: a linked unit of its own, with tables of its own.
#include "tests/collectors/nvtx/mini_nvtx.h"

// While the library is loaded: the loader's lock is held, and we are asked for the first time.
__attribute__((constructor)) static void OnLoad() {
  nvtxRangePushA("loading");
  nvtxRangePop();
}

extern "C" __attribute__((visibility("default"))) void PluginWork() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("loader");
  (void)domain;
  nvtxRangePushA("in the plugin");
  nvtxRangePop();
}
