/* SPDX-License-Identifier: Apache-2.0
 *
 * The part of NVTX's API that the programs of this folder use. With REAL_NVTX it is NVIDIA's
 * header; otherwise one of our own, which finds a tool in the same order: the library that
 * NVTX_INJECTION64_PATH names, then the pointer in the linked unit. */
#ifndef TESTS_COLLECTORS_NVTX_MINI_NVTX_H_
#define TESTS_COLLECTORS_NVTX_MINI_NVTX_H_

#ifdef REAL_NVTX
#include <nvtx3/nvToolsExt.h>
#else
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "collectors/nvtx/abi.h"

extern "C" {
__attribute__((weak, visibility("hidden"))) int (*InitializeInjectionNvtx2_fnptr)(
    const void* (*)(uint32_t));
}

namespace {

namespace abi = jobscope::nvtx::abi;
using nvtxDomainHandle_t = const void*;
using nvtxStringHandle_t = const void*;
using nvtxRangeId_t = uint64_t;

abi::Function g_slots[2][17];
abi::Function* g_tables[2][17];

int GetModule(uint32_t module, abi::Function*** table, unsigned* size) {
  if (module != abi::kModuleCore && module != abi::kModuleCore2) return 0;
  *table = g_tables[module == abi::kModuleCore2];
  *size = 16;
  return 1;
}
const void* GetTable(uint32_t id) {
  static const abi::CallbacksTable callbacks = {sizeof(callbacks), &GetModule};
  return id == abi::kCallbacksTable ? &callbacks : nullptr;
}
bool FindTool() {
  for (int module = 0; module < 2; ++module) {
    for (int i = 1; i < 16; ++i) g_tables[module][i] = &g_slots[module][i];
  }
  int (*initialize)(const void* (*)(uint32_t)) = nullptr;
  if (const char* const path = getenv("NVTX_INJECTION64_PATH")) {
    void* const library = dlopen(path, RTLD_LAZY);
    if (library == nullptr) return false;
    initialize = reinterpret_cast<decltype(initialize)>(dlsym(library, "InitializeInjectionNvtx2"));
  } else {
    initialize = InitializeInjectionNvtx2_fnptr;
  }
  return initialize != nullptr && initialize(&GetTable) != 0;
}
template <typename Pointer>
Pointer Slot(int module, uint32_t id) {
  static const bool attached = FindTool();
  return attached ? reinterpret_cast<Pointer>(g_slots[module][id]) : nullptr;
}

[[maybe_unused]] int nvtxRangePushA(const char* message) {
  const auto push = Slot<int (*)(const char*)>(0, abi::kRangePushA);
  return push == nullptr ? abi::kNoTracking : push(message);
}
[[maybe_unused]] int nvtxRangePop() {
  const auto pop = Slot<int (*)()>(0, abi::kRangePop);
  return pop == nullptr ? abi::kNoTracking : pop();
}
[[maybe_unused]] void nvtxMarkA(const char* message) {
  if (const auto mark = Slot<void (*)(const char*)>(0, abi::kMarkA)) mark(message);
}
[[maybe_unused]] nvtxRangeId_t nvtxRangeStartA(const char* message) {
  const auto start = Slot<uint64_t (*)(const char*)>(0, abi::kRangeStartA);
  return start == nullptr ? 0 : start(message);
}
[[maybe_unused]] void nvtxRangeEnd(nvtxRangeId_t id) {
  if (const auto end = Slot<void (*)(uint64_t)>(0, abi::kRangeEnd)) end(id);
}
[[maybe_unused]] nvtxDomainHandle_t nvtxDomainCreateA(const char* name) {
  const auto create = Slot<const void* (*)(const char*)>(1, abi::kDomainCreateA);
  return create == nullptr ? nullptr : create(name);
}
[[maybe_unused]] void nvtxDomainNameCategoryA(nvtxDomainHandle_t domain, uint32_t category,
                                              const char* name) {
  using Name = void (*)(const void*, uint32_t, const char*);
  if (const auto give = Slot<Name>(1, abi::kDomainNameCategoryA)) give(domain, category, name);
}
[[maybe_unused]] int nvtxDomainRangePushEx(nvtxDomainHandle_t domain,
                                           const abi::EventAttributes* attributes) {
  using Push = int (*)(const void*, const abi::EventAttributes*);
  const auto push = Slot<Push>(1, abi::kDomainRangePushEx);
  return push == nullptr ? abi::kNoTracking : push(domain, attributes);
}
[[maybe_unused]] int nvtxDomainRangePop(nvtxDomainHandle_t domain) {
  const auto pop = Slot<int (*)(const void*)>(1, abi::kDomainRangePop);
  return pop == nullptr ? abi::kNoTracking : pop(domain);
}

}  // namespace
#endif

#endif /* TESTS_COLLECTORS_NVTX_MINI_NVTX_H_ */
