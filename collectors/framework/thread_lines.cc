// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/thread_lines.h"

#include <charconv>
#include <functional>
#include <thread>

namespace jobscope::framework {
namespace {

// Returns the id that TSL's profilers give to a thread's line: the hash of its pthread_t. A
// framework built with another C++ library uses another hash; its lines are then separate.
int64_t LineIdOf(uint64_t pthread) {
  const std::thread::id id(static_cast<std::thread::native_handle_type>(pthread));
  return static_cast<int64_t>(std::hash<std::thread::id>()(id));
}

}  // namespace

void ThreadLines::Add(std::string_view threads) {
  const char* at = threads.data();
  const char* const end = at + threads.size();
  while (at < end) {
    uint64_t pthread = 0;
    int64_t tid = 0;
    at = std::from_chars(at, end, pthread).ptr;
    if (at == end || *at != ':') return;
    at = std::from_chars(at + 1, end, tid).ptr;
    if (at < end && *at != ',') return;
    ++at;
    thread_by_line_[LineIdOf(pthread)] = tid;
  }
}

std::optional<int64_t> ThreadLines::Find(int64_t line_id) const {
  const auto found = thread_by_line_.find(line_id);
  if (found == thread_by_line_.end()) return std::nullopt;
  return found->second;
}

}  // namespace jobscope::framework
