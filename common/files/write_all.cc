// SPDX-License-Identifier: Apache-2.0
#include "common/files/write_all.h"

#include <signal.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/process/blocked_signal.h"

namespace jobscope {

int WriteAll(int fd, iovec* pieces, size_t count) {
  BlockedSignal blocked(SIGXFSZ);
  size_t first = 0;
  while (first < count) {
    const ssize_t written = writev(fd, &pieces[first], static_cast<int>(count - first));
    if (written < 0) {
      if (errno == EINTR) continue;
      const int error = errno;
      if (error == EFBIG) blocked.Raised();
      return error;
    }
    auto left = static_cast<size_t>(written);
    while (first < count && left >= pieces[first].iov_len) {
      left -= pieces[first].iov_len;
      ++first;
    }
    if (first < count) {
      pieces[first].iov_base = static_cast<char*>(pieces[first].iov_base) + left;
      pieces[first].iov_len -= left;
    }
  }
  return 0;
}

absl::Status FileError(absl::string_view verb, absl::string_view path, int error) {
  const std::string text = absl::StrCat("cannot ", verb, " ", path, ": ", std::strerror(error));
  switch (error) {
    case EEXIST:
      return absl::AlreadyExistsError(text);
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(absl::StrCat(text, "; make room, or write elsewhere"));
    case EFBIG:
      return absl::ResourceExhaustedError(
          absl::StrCat(text, "; raise the file size limit (ulimit -f), or take a shorter capture"));
    case EROFS:
    case EACCES:
    case EPERM:
      return absl::UnavailableError(absl::StrCat(text, "; write elsewhere"));
    case ENOENT:
      return absl::UnavailableError(
          absl::StrCat(text, "; its directory does not exist: write elsewhere"));
    case EMFILE:
    case ENFILE:
      return absl::UnavailableError(
          absl::StrCat(text, "; raise the limit on open files (ulimit -n)"));
    default:
      return absl::UnavailableError(text);
  }
}

}  // namespace jobscope
