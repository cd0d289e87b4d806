// SPDX-License-Identifier: Apache-2.0
//
// Writes a file whose whole content is in memory.
#ifndef COMMON_FILES_WHOLE_FILE_H_
#define COMMON_FILES_WHOLE_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace jobscope {

// Writes `bytes` to `path` and replaces a file that is there: whoever opens `path` finds the old
// content or the new one, never a part. Only the owner may read the file. Blocks for the disk, but
// does not wait until the bytes are on it. Errors: as FileSink's; the old file is then unchanged.
absl::Status WriteWholeFile(const std::string& path, std::string_view bytes);

}  // namespace jobscope

#endif  // COMMON_FILES_WHOLE_FILE_H_
