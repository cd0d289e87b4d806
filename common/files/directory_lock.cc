// SPDX-License-Identifier: Apache-2.0
#include "common/files/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "absl/time/time.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

constexpr std::chrono::milliseconds kPoll(1);

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& path, std::chrono::milliseconds timeout)
    : fd_(open(DirectoryOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  const absl::Time end = SteadyNow() + absl::FromChrono(timeout);
  while (fd_ >= 0 && flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return;
    if (SteadyNow() >= end) {
      is_taken_ = true;
      return;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

DirectoryLock::~DirectoryLock() {
  if (fd_ < 0) return;
  flock(fd_, LOCK_UN);  // also where a child has inherited the descriptor
  close(fd_);
}

}  // namespace jobscope
