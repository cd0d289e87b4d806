// SPDX-License-Identifier: Apache-2.0
#include "collectors/framework/mapped_xspace.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope::framework {

absl::StatusOr<MappedXSpace> MappedXSpace::Make(int fd, size_t bytes) {
  struct stat info = {};
  if (fstat(fd, &info) != 0 || info.st_size < 0 || static_cast<uint64_t>(info.st_size) < bytes) {
    return absl::InternalError("what it handed over cannot be read");
  }
  MappedXSpace mapped;
  mapped.fd_ = fd;
  if (bytes == 0) return mapped;
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "the ", bytes >> 20, " MiB that it recorded cannot be mapped: ", std::strerror(errno)));
  }
  mapped.data_ = data;
  mapped.bytes_ = bytes;
  return mapped;
}

MappedXSpace& MappedXSpace::operator=(MappedXSpace&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

MappedXSpace::~MappedXSpace() {
  if (data_ != nullptr) munmap(data_, bytes_);
  if (fd_ >= 0) (void)!ftruncate(fd_, 0);
}

}  // namespace jobscope::framework
