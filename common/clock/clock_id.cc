// SPDX-License-Identifier: Apache-2.0
#include "common/clock/clock_id.h"

#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <cstdint>
#include <string_view>
#include <utility>

namespace jobscope {
namespace {

// Returns "time:[4026531834]", unique per time namespace; empty on kernels before 5.6.
std::string TimeNamespace() {
  char target[64];
  const ssize_t size = readlink("/proc/self/ns/time", target, sizeof(target));
  return size > 0 ? std::string(target, static_cast<size_t>(size)) : std::string();
}

// Returns the text of the boot's id; empty if /proc does not provide it.
std::string BootId() {
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[64];
  const ssize_t size = read(fd, text, sizeof(text));
  close(fd);
  return size > 0 ? std::string(text, static_cast<size_t>(size)) : std::string();
}

std::string ReadClockId() {
  std::string id;
  for (const char c : BootId()) {
    if (std::isxdigit(static_cast<unsigned char>(c)) != 0) id.push_back(c);
  }
  constexpr size_t kDigits = 32;
  if (id.size() != kDigits) return {};
  // Mixes the inode into the last digits: namespaces of one boot differ only in their inode.
  uint64_t inode = 0;
  for (const char c : TimeNamespace()) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      inode = inode * 10 + static_cast<uint64_t>(c - '0');
    }
  }
  constexpr std::string_view kHex = "0123456789abcdef";
  for (size_t i = kDigits; i > 0 && inode != 0; --i, inode >>= 4) {
    const size_t digit = kHex.find(static_cast<char>(std::tolower(id[i - 1])));
    id[i - 1] = kHex[digit ^ (inode & 0xf)];
  }
  return id;
}

// Never destroyed: calls may be answered until the process exits.
std::string& TheClockId() {
  static auto* const id = new std::string(ReadClockId());
  return *id;
}

}  // namespace

const std::string& ClockId() { return TheClockId(); }

void SetClockIdForTesting(std::string id) { TheClockId() = std::move(id); }

}  // namespace jobscope
