// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvml/nvml_api.h"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/sync/mutex.h"

namespace jobscope::nvml {
namespace {

struct ResultText {
  Result result;
  std::string_view name;
  std::string_view text;  // empty: the name suffices
};

constexpr std::array<ResultText, 22> kTexts = {{
    {1, "UNINITIALIZED", ""},
    {2, "INVALID_ARGUMENT", ""},
    {kNotSupported, "NOT_SUPPORTED", "this GPU does not provide it"},
    {kNoPermission, "NO_PERMISSION",
     "this process has no access to the driver; check the permissions of /dev/nvidiactl and "
     "/dev/nvidia*"},
    {kNotFound, "NOT_FOUND", ""},
    {7, "INSUFFICIENT_SIZE", ""},
    {8, "INSUFFICIENT_POWER", "a GPU's power cables are not attached"},
    {kDriverNotLoaded, "DRIVER_NOT_LOADED",
     "no NVIDIA driver on this machine, or none visible in this container"},
    {10, "TIMEOUT", ""},
    {11, "IRQ_ISSUE", "the kernel has trouble with a GPU's interrupts; look at dmesg"},
    {12, "LIBRARY_NOT_FOUND", "the driver's own libraries are not complete"},
    {kFunctionNotFound, "FUNCTION_NOT_FOUND", "the driver is too old for it"},
    {14, "CORRUPTED_INFOROM", "the GPU's infoROM is corrupted"},
    {kGpuIsLost, "GPU_IS_LOST", "the GPU has fallen off the bus; look for Xid lines in dmesg"},
    {kResetRequired, "RESET_REQUIRED", "the GPU needs a reset"},
    {17, "OPERATING_SYSTEM", "a cgroup or the system keeps the GPU from this process"},
    {kVersionMismatch, "LIB_RM_VERSION_MISMATCH",
     "the driver was updated, and the old kernel module still runs; reload it or reboot"},
    {19, "IN_USE", ""},
    {20, "MEMORY", "not enough memory"},
    {25, "ARGUMENT_VERSION_MISMATCH", ""},
    {kGpuNotFound, "GPU_NOT_FOUND", "no GPU"},
    {999, "UNKNOWN", "the driver failed without a reason; look for Xid lines in dmesg"},
}};

const ResultText* Find(Result result) {
  for (const ResultText& text : kTexts) {
    if (text.result == result) return &text;
  }
  return nullptr;
}

template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  void* const found = dlsym(library, name);
  static_assert(sizeof(found) == sizeof(*function));
  std::memcpy(function, &found, sizeof(found));
  return found != nullptr;
}

const char* ResolveAll(void* library, Api* api) {
#define JOBSCOPE_FIND_OPTIONAL(name, parameters) (void)Resolve(library, #name, &api->name);
  JOBSCOPE_NVML_OPTIONAL(JOBSCOPE_FIND_OPTIONAL)
#undef JOBSCOPE_FIND_OPTIONAL
#define JOBSCOPE_FIND_REQUIRED(name, parameters) \
  if (!Resolve(library, #name, &api->name)) return #name;
  JOBSCOPE_NVML_REQUIRED(JOBSCOPE_FIND_REQUIRED)
#undef JOBSCOPE_FIND_REQUIRED
  return nullptr;
}

}  // namespace

Loaded LoadNvml(const std::string& library) {
  Loaded loaded;
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const error = dlerror();
    const std::string why = error == nullptr ? library : std::string(error);
    loaded.absent = true;
    loaded.reason = "no NVIDIA driver on this machine, or none visible in this container";
    // The usual case of a missing driver needs no details.
    if (library != kLibraryName || why.find("No such file") == std::string::npos) {
      absl::StrAppend(&loaded.reason, " (", why, ")");
    }
    return loaded;
  }
  // Keyed by handle: the linker returns the same one for the same library.
  static Mutex mutex;
  static auto* const tables ABSL_PT_GUARDED_BY(mutex) = new std::map<void*, const Api*>;
  const MutexLock lock(&mutex);
  if (const auto known = tables->find(handle); known != tables->end()) {
    loaded.api = known->second;
    return loaded;
  }
  auto* const api = new Api;
  if (const char* const missing = ResolveAll(handle, api); missing != nullptr) {
    loaded.reason =
        absl::StrCat(library, " lacks ", missing, ": a driver of CUDA 11 or later is needed");
    delete api;
    dlclose(handle);
    return loaded;
  }
  tables->emplace(handle, api);
  loaded.api = api;
  return loaded;
}

std::string FailureText(const char* call, Result result) {
  const ResultText* const known = Find(result);
  const std::string text =
      known == nullptr || known->text.empty() ? "NVML failed" : std::string(known->text);
  return absl::StrCat(text, " (", call, ": ", result,
                      known == nullptr ? "" : absl::StrCat(" ", std::string(known->name)), ")");
}

}  // namespace jobscope::nvml
