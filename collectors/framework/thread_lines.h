// SPDX-License-Identifier: Apache-2.0
//
// Finds the threads of the lines in a trace of TSL's profilers.
#ifndef COLLECTORS_FRAMEWORK_THREAD_LINES_H_
#define COLLECTORS_FRAMEWORK_THREAD_LINES_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/containers/hash_table.h"

namespace jobscope::framework {

// Knows the OS threads of Python's threads by the ids of their lines. Not thread-safe.
class ThreadLines {
 public:
  // Adds threads, as "pthread_t:tid,…". Ends at the first that does not parse.
  void Add(std::string_view threads);
  void Clear() { thread_by_line_.clear(); }

  // Returns the OS thread of a line, if known.
  std::optional<int64_t> Find(int64_t line_id) const;

 private:
  HashMap<int64_t, int64_t> thread_by_line_;
};

}  // namespace jobscope::framework

#endif  // COLLECTORS_FRAMEWORK_THREAD_LINES_H_
