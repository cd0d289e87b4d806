// SPDX-License-Identifier: Apache-2.0
//
// Imitates a linked unit that uses NVTX as NVTX's headers make one: it has tables of its own, which
// its first call attaches to a tool, and functions that call their entries. Written against
// collectors/nvtx/abi.h; real_headers_test.cc does the same with NVIDIA's headers if they are
// installed.
#ifndef TESTS_COLLECTORS_NVTX_NVTX_UNIT_H_
#define TESTS_COLLECTORS_NVTX_NVTX_UNIT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "collectors/nvtx/abi.h"

namespace jobscope::nvtx_test {

namespace abi = nvtx::abi;

inline constexpr size_t kSlots = 16;

// One unit's globals. `kUnit` makes units of their own of it: NVTX's way back is a plain function.
template <int kUnit>
class Unit {
 public:
  using Initialize = int (*)(void*);

  // What NVTX does at the first call: everything that the tool leaves empty stays so.
  static bool Attach(Initialize initialize) {
    for (size_t i = 0; i < kSlots; ++i) {
      core_table_[i] = i == 0 || i >= core_size ? nullptr : &core_[i];
      core2_table_[i] = i == 0 || i >= core_size ? nullptr : &core2_[i];
    }
    return initialize(reinterpret_cast<void*>(&GetExportTable)) != 0;
  }
  static bool AttachPayloads(Initialize initialize) {
    abi::ExtensionSegment segment = {0, payload_.size(), payload_.data()};
    abi::ExtensionModule module = {
        3, sizeof(module), abi::kPayloadModule, 0x0104, 1, &segment, nullptr, nullptr};
    return initialize(&module) != 0;
  }

  static int Push(const char* message) {
    return Call<int (*)(const char*)>(core_, abi::kRangePushA, abi::kNoTracking, message);
  }
  static int Push(const wchar_t* message) {
    return Call<int (*)(const wchar_t*)>(core_, abi::kRangePushW, abi::kNoTracking, message);
  }
  static int Push(const abi::EventAttributes* attributes) {
    return Call<int (*)(const abi::EventAttributes*)>(core_, abi::kRangePushEx, abi::kNoTracking,
                                                      attributes);
  }
  static int Push(const void* domain, const abi::EventAttributes* attributes) {
    return Call<int (*)(const void*, const abi::EventAttributes*)>(
        core2_, abi::kDomainRangePushEx, abi::kNoTracking, domain, attributes);
  }
  static int Pop() { return Call<int (*)()>(core_, abi::kRangePop, abi::kNoTracking); }
  static int Pop(const void* domain) {
    return Call<int (*)(const void*)>(core2_, abi::kDomainRangePop, abi::kNoTracking, domain);
  }
  static uint64_t Start(const char* message) {
    return Call<uint64_t (*)(const char*)>(core_, abi::kRangeStartA, uint64_t{0}, message);
  }
  static uint64_t Start(const void* domain, const abi::EventAttributes* attributes) {
    return Call<uint64_t (*)(const void*, const abi::EventAttributes*)>(
        core2_, abi::kDomainRangeStartEx, uint64_t{0}, domain, attributes);
  }
  static void End(uint64_t id) { CallVoid<void (*)(uint64_t)>(core_, abi::kRangeEnd, id); }
  static void Mark(const char* message) {
    CallVoid<void (*)(const char*)>(core_, abi::kMarkA, message);
  }
  static void Mark(const void* domain, const abi::EventAttributes* attributes) {
    CallVoid<void (*)(const void*, const abi::EventAttributes*)>(core2_, abi::kDomainMarkEx, domain,
                                                                 attributes);
  }
  static void NameCategory(const void* domain, uint32_t category, const char* name) {
    CallVoid<void (*)(const void*, uint32_t, const char*)>(core2_, abi::kDomainNameCategoryA,
                                                           domain, category, name);
  }
  static void NameThread(uint32_t tid, const char* name) {
    CallVoid<void (*)(uint32_t, const char*)>(core_, abi::kNameOsThreadA, tid, name);
  }
  static const void* Register(const void* domain, const char* text) {
    return Call<const void* (*)(const void*, const char*)>(
        core2_, abi::kDomainRegisterStringA, static_cast<const void*>(nullptr), domain, text);
  }
  static const void* Register(const void* domain, const wchar_t* text) {
    return Call<const void* (*)(const void*, const wchar_t*)>(
        core2_, abi::kDomainRegisterStringW, static_cast<const void*>(nullptr), domain, text);
  }
  static const void* CreateDomain(const char* name) {
    return Call<const void* (*)(const char*)>(core2_, abi::kDomainCreateA,
                                              static_cast<const void*>(nullptr), name);
  }
  static void DestroyDomain(const void* domain) {
    CallVoid<void (*)(const void*)>(core2_, abi::kDomainDestroy, domain);
  }
  // Functions of the two modules, which the tool has filled in, and of the payload extension.
  template <typename Function>
  static Function Core(abi::Core id) {
    return reinterpret_cast<Function>(core_[id]);
  }
  template <typename Function>
  static Function Core2(abi::Core2 id) {
    return reinterpret_cast<Function>(core2_[id]);
  }
  template <typename Function>
  static Function Payload(abi::PayloadSlot slot) {
    Function function;
    std::memcpy(&function, &payload_[slot], sizeof(function));
    return function;
  }

  // An older NVTX has smaller tables.
  static inline unsigned core_size = kSlots;
  static inline uint32_t told_version = 0;

 private:
  template <typename Function, typename Result, typename... Args>
  static Result Call(const std::array<abi::Function, kSlots>& slots, uint32_t id, Result otherwise,
                     Args... args) {
    const auto function = reinterpret_cast<Function>(slots[id]);
    return function == nullptr ? otherwise : function(args...);
  }
  template <typename Function, typename... Args>
  static void CallVoid(const std::array<abi::Function, kSlots>& slots, uint32_t id, Args... args) {
    if (const auto function = reinterpret_cast<Function>(slots[id])) function(args...);
  }

  static int GetModule(uint32_t module, abi::Function*** table, unsigned* size) {
    *size = core_size;
    if (module == abi::kModuleCore) {
      *table = core_table_.data();
      return 1;
    }
    if (module == abi::kModuleCore2) {
      *table = core2_table_.data();
      return 1;
    }
    return 0;
  }
  static void SetVersion(uint32_t version) { told_version = version; }
  static const void* GetExportTable(uint32_t id) {
    static const abi::CallbacksTable callbacks = {sizeof(callbacks), &GetModule};
    static const abi::VersionTable version = {sizeof(version), 3, 0, &SetVersion};
    if (id == abi::kCallbacksTable) return &callbacks;
    return id == abi::kVersionTable ? &version : nullptr;
  }

  static inline std::array<abi::Function, kSlots> core_ = {};
  static inline std::array<abi::Function, kSlots> core2_ = {};
  static inline std::array<abi::Function*, kSlots> core_table_ = {};
  static inline std::array<abi::Function*, kSlots> core2_table_ = {};
  static inline std::array<intptr_t, 63> payload_ = {};
};

// ---- attributes ----

inline abi::EventAttributes Attributes() {
  abi::EventAttributes attributes = {};
  attributes.version = 3;
  attributes.size = sizeof(attributes);
  return attributes;
}
inline abi::EventAttributes Message(const char* text) {
  abi::EventAttributes attributes = Attributes();
  attributes.message_type = abi::kMessageAscii;
  attributes.message.ascii = text;
  return attributes;
}
inline abi::EventAttributes Message(const wchar_t* text) {
  abi::EventAttributes attributes = Attributes();
  attributes.message_type = abi::kMessageWide;
  attributes.message.wide = text;
  return attributes;
}
inline abi::EventAttributes Registered(const void* handle) {
  abi::EventAttributes attributes = Attributes();
  attributes.message_type = abi::kMessageRegistered;
  attributes.message.registered = handle;
  return attributes;
}

}  // namespace jobscope::nvtx_test

#endif  // TESTS_COLLECTORS_NVTX_NVTX_UNIT_H_
