// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope::analysis {

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // Without O_NONBLOCK a FIFO would block until somebody writes.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat status = {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  const auto size = static_cast<size_t>(status.st_size);
  void* data = nullptr;
  int error = 0;
  if (size > 0) {
    data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    error = errno;
  }
  close(fd);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(error, absl::StrCat("cannot map ", path));
  if (data != nullptr) (void)madvise(data, size, MADV_SEQUENTIAL);  // only a hint
  return MappedFile(static_cast<const char*>(data), size);
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) {
  other.data_ = nullptr;
}

void MappedFile::Release(size_t begin, size_t end) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  begin = (begin + page - 1) / page * page;
  end = std::min(end, size_) / page * page;
  if (data_ == nullptr || begin >= end) return;
  (void)madvise(const_cast<char*>(data_) + begin, end - begin, MADV_DONTNEED);  // only a hint
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

}  // namespace jobscope::analysis
