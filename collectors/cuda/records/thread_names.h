// SPDX-License-Identifier: Apache-2.0
#ifndef COLLECTORS_CUDA_RECORDS_THREAD_NAMES_H_
#define COLLECTORS_CUDA_RECORDS_THREAD_NAMES_H_

#include <cstdint>
#include <string>

#include "common/containers/hash_table.h"

namespace jobscope::cuda {

// Caches the names of the process's threads. Reads each at its first record, because the thread may
// have ended when the trace is written. Not thread-safe.
class ThreadNames {
 public:
  // Returns "thread" for one that has ended. Valid until the next call.
  const std::string& Of(uint32_t thread);
  // Returns whether this library started the thread.
  bool IsOurs(uint32_t thread);

 private:
  HashMap<uint32_t, std::string> names_;
};

}  // namespace jobscope::cuda

#endif  // COLLECTORS_CUDA_RECORDS_THREAD_NAMES_H_
