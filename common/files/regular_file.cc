// SPDX-License-Identifier: Apache-2.0
#include "common/files/regular_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope {

absl::StatusOr<RegularFile> RegularFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
  if (fd < 0) {
    if (errno == ENOENT) return absl::NotFoundError(strerror(ENOENT));
    if (errno == ELOOP) {
      return absl::UnavailableError("is a symbolic link, and others may have put it there");
    }
    return absl::UnavailableError(strerror(errno));
  }
  struct stat info = {};
  RegularFile file(fd, info);
  if (fstat(fd, &file.info_) != 0) return absl::UnavailableError(strerror(errno));
  if (!S_ISREG(file.info_.st_mode)) return absl::UnavailableError("is not a regular file");
  return file;
}

RegularFile::~RegularFile() {
  if (fd_ >= 0) close(fd_);
}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), info_(other.info_) {}

absl::StatusOr<std::string> RegularFile::Read(size_t max_bytes) const {
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t got = read(fd_, buffer, sizeof(buffer));
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::UnavailableError(strerror(errno));
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat("has more than ", max_bytes, " bytes"));
    }
  }
}

}  // namespace jobscope
