// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/libraries/cupti_api.h"

#include <dlfcn.h>

#include <array>
#include <cstring>

namespace jobscope::cuda {
namespace {

struct Release {
  uint32_t version;
  const char* text;
};
// The number counts releases up to 12.9; from 13.0 on it is major * 10000 + minor * 100 + update.
constexpr std::array<Release, 15> kReleases = {{{13, "11.0"},
                                                {14, "11.1"},
                                                {15, "11.2"},
                                                {16, "11.5"},
                                                {17, "11.6"},
                                                {18, "11.8 to 12.1"},
                                                {19, "12.0"},
                                                {20, "12.2"},
                                                {21, "12.3"},
                                                {22, "12.4"},
                                                {23, "12.5"},
                                                {24, "12.6"},
                                                {26, "12.8"},
                                                {27, "12.9"},
                                                {28, "12.9.1"}}};

template <typename Function>
bool Find(void* library, const char* name, Function* function) {
  void* const found = dlsym(library, name);
  static_assert(sizeof(found) == sizeof(*function));
  std::memcpy(function, &found, sizeof(found));
  return found != nullptr;
}

}  // namespace

std::string CuptiVersionText(uint32_t version) {
  if (version >= 100'000) {
    std::string text = std::to_string(version / 10'000);
    text.append(".").append(std::to_string(version / 100 % 100));
    if (version % 100 != 0) text.append(".").append(std::to_string(version % 100));
    return text;
  }
  for (const Release& release : kReleases) {
    if (release.version == version) return release.text;
  }
  return "of API version " + std::to_string(version);
}

uint32_t CuptiMajor(uint32_t version) {
  if (version >= 100'000) return version / 10'000;
  if (version > kCupti11_8) return 12;
  return version >= kCupti11_0 ? 11 : 0;
}

const char* CuptiApi::Resolve(void* library) {
#define JOBSCOPE_FIND_OPTIONAL(name, parameters) (void)Find(library, #name, &name);
  JOBSCOPE_CUPTI_OPTIONAL(JOBSCOPE_FIND_OPTIONAL)
#undef JOBSCOPE_FIND_OPTIONAL
#define JOBSCOPE_FIND_REQUIRED(name, parameters) \
  if (!Find(library, #name, &name)) return #name;
  JOBSCOPE_CUPTI_REQUIRED(JOBSCOPE_FIND_REQUIRED)
#undef JOBSCOPE_FIND_REQUIRED
  return nullptr;
}

}  // namespace jobscope::cuda
