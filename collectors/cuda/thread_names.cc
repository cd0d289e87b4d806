// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/thread_names.h"

#include <cstdio>
#include <string_view>

namespace jobscope::cuda {
namespace {

constexpr std::string_view kOwnPrefix = "jobscope-";

std::string Read(uint32_t thread) {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/self/task/%u/comm", thread);
  std::string name = "thread";
  if (FILE* const file = std::fopen(path, "re"); file != nullptr) {
    char text[64] = {};
    if (std::fgets(text, sizeof(text), file) != nullptr) {
      name = text;
      while (!name.empty() && name.back() == '\n') name.pop_back();
    }
    std::fclose(file);
  }
  return name;
}

}  // namespace

const std::string& ThreadNames::Of(uint32_t thread) {
  const auto found = names_.find(thread);
  return found != names_.end() ? found->second : names_.emplace(thread, Read(thread)).first->second;
}

bool ThreadNames::IsOurs(uint32_t thread) {
  return std::string_view(Of(thread)).substr(0, kOwnPrefix.size()) == kOwnPrefix;
}

}  // namespace jobscope::cuda
