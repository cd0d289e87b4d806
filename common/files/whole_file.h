// SPDX-License-Identifier: Apache-2.0
//
// Writes a file whose whole content is in memory.
#ifndef COMMON_FILES_WHOLE_FILE_H_
#define COMMON_FILES_WHOLE_FILE_H_

#include <sys/types.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/files/file_sink.h"

namespace jobscope {

// Writes `bytes` to `path` and replaces an existing file: a reader of `path` finds the old
// content or the new one, never a part, also if several processes write it at once. The file gets
// `mode`, regardless of the umask. Blocks for the disk, but does not wait until the bytes are on
// it. A process that is killed in the call may leave a hidden file ".<name>.<16 digits>.partial".
// Errors, which leave the existing file unchanged: FailedPrecondition if `path` is there and is no
// regular file (a link, a device: the file would replace it), otherwise as FileSink's.
absl::Status WriteWholeFile(const std::string& path, std::string_view bytes,
                            mode_t mode = kPrivateFileMode);

}  // namespace jobscope

#endif  // COMMON_FILES_WHOLE_FILE_H_
