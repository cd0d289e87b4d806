// SPDX-License-Identifier: Apache-2.0
#include "common/process/own_memory.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/descriptors/standard_descriptors.h"

namespace jobscope {
namespace {

constexpr size_t kMaxPieces = 256;  // Linux allows 1,024

// Returns an address of this process as an iovec; nothing is read through the pointer.
iovec Piece(uint64_t address, size_t size) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return {reinterpret_cast<void*>(address), size};
}

}  // namespace

OwnMemory::OwnMemory() {
  char byte = 0;
  char copy = 0;
  const iovec to{&copy, 1};
  const iovec from{&byte, 1};
  if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1) return;
  file_ = AboveStandard(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
}

OwnMemory::~OwnMemory() {
  if (file_ >= 0) close(file_);
}

bool OwnMemory::Read(uint64_t address, void* to, size_t size) {
  if (file_ >= 0) {
    return address <= INT64_MAX &&
           pread(file_, to, size, static_cast<off_t>(address)) == static_cast<ssize_t>(size);
  }
  const iovec local{to, size};
  const iovec remote = Piece(address, size);
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(size);
}

bool OwnMemory::ReadEach(const std::vector<uint64_t>& addresses, size_t size, char* to) {
  if (file_ >= 0) {
    for (const uint64_t address : addresses) {
      if (!Read(address, to, size)) return false;
      to += size;
    }
    return true;
  }
  iovec remote[kMaxPieces];
  for (size_t at = 0; at < addresses.size();) {
    const size_t count = std::min(kMaxPieces, addresses.size() - at);
    for (size_t i = 0; i < count; ++i) remote[i] = Piece(addresses[at + i], size);
    const iovec local{to, count * size};
    if (process_vm_readv(getpid(), &local, 1, remote, count, 0) !=
        static_cast<ssize_t>(count * size)) {
      return false;
    }
    to += count * size;
    at += count;
  }
  return true;
}

}  // namespace jobscope
