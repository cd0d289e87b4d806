// SPDX-License-Identifier: Apache-2.0
#include "common/write_all.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

// Over RLIMIT_FSIZE the system sends SIGXFSZ, whose default is to end the process. This code also
// runs inside workers, where it may neither kill the job nor change its signal handlers: so the
// signal is blocked for the time of the write, and taken away.
class FileSizeSignalBlocked {
 public:
  FileSizeSignalBlocked() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~FileSizeSignalBlocked() {
    if (raised_) {
      const timespec at_once{};
      while (sigtimedwait(&set_, nullptr, &at_once) < 0 && errno == EINTR) {
      }
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  void Raised() { raised_ = true; }

 private:
  sigset_t set_{};
  sigset_t before_{};
  bool raised_ = false;
};

}  // namespace

int WriteAll(int fd, iovec* pieces, size_t count) {
  FileSizeSignalBlocked blocked;
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

absl::Status WriteError(absl::string_view verb, absl::string_view path, int error) {
  const std::string text = absl::StrCat("cannot ", verb, " ", path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat(text, "; make room, or take another logdir"));
  }
  if (error == EFBIG) {
    return absl::ResourceExhaustedError(
        absl::StrCat(text, "; raise the file size limit (ulimit -f), or take a shorter capture"));
  }
  return absl::UnavailableError(text);
}

}  // namespace jobscope
