// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/records/thread_names.h"

#include <cstddef>
#include <utility>

#include "common/threads/thread_name.h"

namespace jobscope::cuda {
namespace {

// Bounds the names, of about 100 bytes each: a program may create a thread in each step.
constexpr size_t kMaxNames = 65'536;

}  // namespace

const std::string& ThreadNames::Of(uint32_t thread) {
  const auto found = names_.find(thread);
  if (found != names_.end()) return found->second;
  std::string name = ThreadName(thread);
  if (name.empty()) name = "thread";
  if (names_.size() >= kMaxNames) names_.clear();
  return names_.emplace(thread, std::move(name)).first->second;
}

bool ThreadNames::IsOurs(uint32_t thread) { return IsOwnThreadName(Of(thread)); }

}  // namespace jobscope::cuda
