// SPDX-License-Identifier: Apache-2.0
//
// The fake libnvidia-ml, opened.
#ifndef TESTS_COLLECTORS_NVML_FAKE_DRIVER_H_
#define TESTS_COLLECTORS_NVML_FAKE_DRIVER_H_

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/collectors/nvml/fake_nvml/fake_nvml.h"

namespace jobscope::nvml {

inline std::string FakeUuid(uint32_t number) {
  char text[64];
  std::snprintf(text, sizeof(text), "a0a1a2a3-a4a5-a6a7-a8a9-aaabacadae%02x", number);
  return text;
}

// Stays in the process, as the real one does.
class FakeDriver {
 public:
  explicit FakeDriver(const char* path) {
    void* const library = dlopen(path, RTLD_NOW);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::abort();
    }
    Find(library, "FakeNvmlReset", &Reset);
    Find(library, "FakeNvmlFail", &Fail);
    Find(library, "FakeNvmlHang", &Hang);
    Find(library, "FakeNvmlRelease", &Release);
    Find(library, "FakeNvmlAwaitHang", &AwaitHang);
    Find(library, "FakeNvmlCalls", &Calls);
    Find(library, "FakeNvmlAwaitCalls", &AwaitCalls);
    Find(library, "FakeNvmlOpen", &Open);
    Find(library, "FakeNvmlLose", &Lose);
    Find(library, "FakeNvmlSetLimits", &SetLimits);
    Find(library, "FakeNvmlAddMig", &AddMig);
  }

  void (*Reset)(uint32_t) = nullptr;
  void (*Fail)(const char*, int32_t, int32_t) = nullptr;
  void (*Hang)(const char*) = nullptr;
  void (*Release)() = nullptr;
  int (*AwaitHang)() = nullptr;
  uint64_t (*Calls)(const char*) = nullptr;
  int (*AwaitCalls)(const char*, uint64_t) = nullptr;
  int (*Open)() = nullptr;
  void (*Lose)(uint32_t) = nullptr;
  void (*SetLimits)(uint64_t) = nullptr;
  void (*AddMig)(uint32_t) = nullptr;

 private:
  template <typename Function>
  static void Find(void* library, const char* name, Function* function) {
    void* const found = dlsym(library, name);
    if (found == nullptr) {
      std::fprintf(stderr, "no %s\n", name);
      std::abort();
    }
    std::memcpy(function, &found, sizeof(found));
  }
};

}  // namespace jobscope::nvml

#endif  // TESTS_COLLECTORS_NVML_FAKE_DRIVER_H_
