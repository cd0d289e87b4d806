// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/descriptors.h"

#include <sys/resource.h>

#include <cstdint>

#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

// For gRPC itself, name lookups, traces being written, and the caller's open files.
constexpr uint64_t kOthers = 64;

}  // namespace

absl::Status EnsureDescriptors(size_t workers, size_t per_worker) {
  const uint64_t needed = uint64_t{workers} * per_worker + kOthers;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();
  if (limit.rlim_cur < limit.rlim_max) {
    rlimit raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      workers, workers == 1 ? " worker takes" : " workers take", " up to ", needed,
      " open files, and this process is allowed ", limit.rlim_cur, "; raise the limit (ulimit -Hn ",
      needed, ", as root or in limits.conf), or give fewer workers at a time"));
}

}  // namespace jobscope
