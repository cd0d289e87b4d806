// SPDX-License-Identifier: Apache-2.0
//
// Writes to our own files, and describes write errors.
#ifndef COMMON_FILES_WRITE_ALL_H_
#define COMMON_FILES_WRITE_ALL_H_

#include <sys/uio.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace jobscope {

// Writes the pieces in order and modifies them meanwhile; `count` is at most IOV_MAX. Returns 0, or
// the errno of the failed write; EFBIG over RLIMIT_FSIZE, without the SIGXFSZ that would end the
// process. Blocks for the disk.
int WriteAll(int fd, iovec* pieces, size_t count);

// Returns "cannot <verb> <path>: No space left on device; make room, or write elsewhere", with the
// remedy that fits `error`, an errno. kAlreadyExists for EEXIST, kResourceExhausted if space is
// missing, else kUnavailable.
absl::Status FileError(absl::string_view verb, absl::string_view path, int error);

}  // namespace jobscope

#endif  // COMMON_FILES_WRITE_ALL_H_
