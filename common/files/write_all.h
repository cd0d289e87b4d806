// SPDX-License-Identifier: Apache-2.0
//
// Writing to files that are ours, and saying what is wrong where that fails.
#ifndef COMMON_FILES_WRITE_ALL_H_
#define COMMON_FILES_WRITE_ALL_H_

#include <sys/uio.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace jobscope {

// Writes the pieces, in order; at most IOV_MAX of them, which are changed on the way. 0, or the
// errno of what failed. Over RLIMIT_FSIZE that is EFBIG: the process gets no SIGXFSZ, which would
// end it. Blocks for the disk.
int WriteAll(int fd, iovec* pieces, size_t count);

// "cannot <verb> <path>: No space left on device; make room, or take another logdir".
// kResourceExhausted where room is what lacks.
absl::Status WriteError(absl::string_view verb, absl::string_view path, int error);

}  // namespace jobscope

#endif  // COMMON_FILES_WRITE_ALL_H_
