// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_CUDA_RECORDS_THREAD_NAMES_H_
#define COLLECTORS_CUDA_RECORDS_THREAD_NAMES_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace jobscope::cuda {

// Names of the process's threads, each asked for once, when its first record comes: a thread may
// have ended when the trace is written. Not thread-safe.
class ThreadNames {
 public:
  // "thread" for one that has ended.
  const std::string& Of(uint32_t thread);
  // Whether it is a thread of this library.
  bool IsOurs(uint32_t thread);

 private:
  absl::flat_hash_map<uint32_t, std::string> names_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_THREAD_NAMES_H_
