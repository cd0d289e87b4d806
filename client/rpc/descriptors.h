// SPDX-License-Identifier: Apache-2.0
//
// Ensures enough descriptors for a run.
#ifndef CLIENT_RPC_DESCRIPTORS_H_
#define CLIENT_RPC_DESCRIPTORS_H_

#include <cstddef>

#include "absl/status/status.h"

namespace jobscope {

// Raises the process's limit of open files (RLIMIT_NOFILE) as far as permitted. Returns
// INVALID_ARGUMENT with a remedy if that is not enough for `workers` workers with `per_worker`
// descriptors each. Call it before recording: afterwards the traces would be lost.
absl::Status EnsureDescriptors(size_t workers, size_t per_worker);

}  // namespace jobscope

#endif  // CLIENT_RPC_DESCRIPTORS_H_
