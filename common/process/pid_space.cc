// SPDX-License-Identifier: Apache-2.0
#include "common/process/pid_space.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <fstream>

namespace jobscope {
namespace {

std::string ReadPidSpace() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  // "pid:[4026531836]", which is the same on all machines: only with the boot it names one.
  char target[64];
  const ssize_t size = readlink("/proc/self/ns/pid", target, sizeof(target));
  if (boot.empty() || size <= 0) return {};
  return boot + "/" + std::string(target, static_cast<size_t>(size));
}

}  // namespace

const std::string& PidSpace() {
  // Never destroyed: calls may be answered until the process is gone.
  static const auto* const space = new std::string(ReadPidSpace());
  return *space;
}

bool HasEnded(int64_t pid) {
  if (pid <= 0 || pid > INT_MAX) return false;
  // Not kill(pid, 0): it takes a process that nobody has waited for yet for one that lives, and
  // /proc one whose first thread has ended for one that has.
  const auto fd = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0));
  if (fd < 0) return errno == ESRCH;
  pollfd polled = {fd, POLLIN, 0};
  const bool ended = poll(&polled, 1, 0) == 1 && (polled.revents & POLLIN) != 0;
  close(fd);
  return ended;
}

}  // namespace jobscope
