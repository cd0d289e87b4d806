// SPDX-License-Identifier: Apache-2.0
#include "common/process/pid_space.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "absl/strings/ascii.h"
#include "common/process/proc_files.h"

namespace jobscope {
namespace {

std::string ReadPidSpace() {
  std::string boot = FileText("/proc/sys/kernel/random/boot_id");
  absl::StripAsciiWhitespace(&boot);
  // "pid:[4026531836]" is the same on all machines; it is unique only together with the boot id.
  char target[64];
  const ssize_t size = readlink("/proc/self/ns/pid", target, sizeof(target));
  if (boot.empty() || size <= 0) return {};
  return boot + "/" + std::string(target, static_cast<size_t>(size));
}

}  // namespace

const std::string& PidSpace() {
  // Never destroyed: calls may be answered until the process exits.
  static const auto* const space = new std::string(ReadPidSpace());
  return *space;
}

bool HasEnded(int64_t pid) {
  if (pid <= 0 || pid > INT_MAX) return false;
  // Avoids kill(pid, 0), which reports a zombie as alive, and /proc, which reports a process whose
  // first thread has ended as dead.
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
  if (fd < 0) return errno == ESRCH;
  pollfd polled = {fd, POLLIN, 0};
  const bool ended = poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN) != 0;
  close(fd);
  return ended;
}

}  // namespace jobscope
