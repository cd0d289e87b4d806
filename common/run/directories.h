// SPDX-License-Identifier: Apache-2.0
//
// Creates directories in a logdir, which may be in a directory where everybody may create names.
#ifndef COMMON_RUN_DIRECTORIES_H_
#define COMMON_RUN_DIRECTORIES_H_

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace jobscope {

// Returns "cannot <verb> <path>: <error>; name a logdir that can be written".
absl::Status Cannot(absl::string_view verb, const std::string& path, int error);

// In the following functions `file_mode` is the mode of the files that the directories are for:
// who may read the files may also search new directories.

// Creates a directory. Returns false if it exists already.
absl::StatusOr<bool> MakeDirectory(const std::string& path, mode_t file_mode);

// Creates a directory and all missing parents.
absl::Status MakeParents(const std::string& path, mode_t file_mode);

// In a directory where everybody can create names (/tmp), somebody may have created `child`
// beforehand: its owner could read and replace its content. Returns an error if somebody has.
absl::Status CheckOwner(const std::string& parent, const std::string& child);

// Creates the logdir if it is missing. One that a team shares may belong to any of them, except in
// a directory like /tmp: there nobody has reserved its name.
absl::Status MakeLogdir(const std::string& logdir, mode_t file_mode);

// Creates a directory in `parent`, unless it exists and is ours.
absl::Status MakeOwn(const std::string& parent, const std::string& child, mode_t file_mode);

}  // namespace jobscope

#endif  // COMMON_RUN_DIRECTORIES_H_
