// SPDX-License-Identifier: Apache-2.0
//
// Reads files that somebody else may have put there.
#ifndef COMMON_FILES_REGULAR_FILE_H_
#define COMMON_FILES_REGULAR_FILE_H_

#include <sys/stat.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace jobscope {

// Reads a regular file. Owns the descriptor.
class RegularFile {
 public:
  // Opens a file for reading without ever blocking: a FIFO without a writer, a device or a
  // directory is an error, as a missing file is. So is a symbolic link as the last part of the
  // path: it may lead to a device, and opening that may have effects. Returns NOT_FOUND, or
  // UNAVAILABLE with the reason as the end of a sentence ("is not a regular file").
  static absl::StatusOr<RegularFile> Open(const std::string& path);
  ~RegularFile();
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&&) = delete;

  int fd() const { return fd_; }
  const struct stat& info() const { return info_; }  // as of Open

  // Returns the content. UNAVAILABLE: it cannot be read. RESOURCE_EXHAUSTED: more than `max_bytes`.
  absl::StatusOr<std::string> Read(size_t max_bytes) const;

 private:
  RegularFile(int fd, const struct stat& info) : fd_(fd), info_(info) {}
  int fd_;
  struct stat info_;
};

}  // namespace jobscope

#endif  // COMMON_FILES_REGULAR_FILE_H_
