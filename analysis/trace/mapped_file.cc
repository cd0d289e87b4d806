// SPDX-License-Identifier: Apache-2.0
#include "analysis/trace/mapped_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

namespace jobscope::analysis {

struct FileMapping {
  char* data = nullptr;
  size_t size = 0;
  std::atomic<bool> lost{false};
  FileMapping* next = nullptr;
};

namespace {

const size_t kPageBytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));

// The mappings of this thread: SIGBUS comes to the thread that faults.
thread_local FileMapping* mappings = nullptr;
struct sigaction previous_action = {};

void OnBusError(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const int error = errno;
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (FileMapping* mapping = mappings; mapping != nullptr; mapping = mapping->next) {
    const auto begin = reinterpret_cast<uintptr_t>(mapping->data);
    if (at < begin || at >= begin + mapping->size) continue;
    // Without this page what follows it is of no use either.
    const size_t from = (at - begin) / kPageBytes * kPageBytes;
    if (mmap(mapping->data + from, mapping->size - from, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
      break;
    }
    mapping->lost = true;
    errno = error;
    return;
  }
  // The instruction that faulted runs again, and faults again.
  sigaction(SIGBUS, &previous_action, nullptr);
  errno = error;
}

bool InstallHandler() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGBUS, &action, &previous_action) == 0;
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  // Without O_NONBLOCK a FIFO would block until somebody writes.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat status = {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  auto mapping = std::make_unique<FileMapping>();
  mapping->size = static_cast<size_t>(status.st_size);
  if (mapping->size == 0) {
    close(fd);
    return MappedFile(nullptr);
  }
  void* data = mmap(nullptr, mapping->size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (data == MAP_FAILED) return absl::ErrnoToStatus(error, absl::StrCat("cannot map ", path));
  (void)madvise(data, mapping->size, MADV_SEQUENTIAL);  // only a hint
  mapping->data = static_cast<char*>(data);
  return MappedFile(std::move(mapping));
}

MappedFile::MappedFile(std::unique_ptr<FileMapping> mapping) : mapping_(std::move(mapping)) {
  if (mapping_ == nullptr) return;
  [[maybe_unused]] static const bool kInstalled = InstallHandler();
  mapping_->next = mappings;
  mappings = mapping_.get();
}

MappedFile::MappedFile(MappedFile&& other) noexcept = default;

MappedFile::~MappedFile() {
  if (mapping_ == nullptr) return;
  FileMapping** link = &mappings;
  while (*link != mapping_.get()) link = &(*link)->next;
  *link = mapping_->next;
  munmap(mapping_->data, mapping_->size);
}

std::string_view MappedFile::bytes() const {
  if (mapping_ == nullptr) return {};
  return {mapping_->data, mapping_->size};
}

absl::Status MappedFile::status() const {
  if (mapping_ == nullptr || !mapping_->lost) return absl::OkStatus();
  return absl::DataLossError(
      "it was truncated, or its file system failed, while it was read; try again");
}

void MappedFile::Release(size_t begin, size_t end) const {
  if (mapping_ == nullptr) return;
  begin = (begin + kPageBytes - 1) / kPageBytes * kPageBytes;
  end = std::min(end, mapping_->size) / kPageBytes * kPageBytes;
  if (begin < end)
    (void)madvise(mapping_->data + begin, end - begin, MADV_DONTNEED);  // only a hint
}

void PassedPages::BeginAt(const char* at) {
  if (file_ != nullptr) released_ = std::min(released_, at);
}

void PassedPages::Release(const char* at) {
  const char* const begin = file_->bytes().data();
  file_->Release(static_cast<size_t>(released_ - begin), static_cast<size_t>(at - begin));
  released_ = at;
}

}  // namespace jobscope::analysis
