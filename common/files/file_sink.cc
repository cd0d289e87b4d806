// SPDX-License-Identifier: Apache-2.0
#include "common/files/file_sink.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/descriptors/standard_descriptors.h"
#include "common/files/random_name.h"
#include "common/files/write_all.h"

namespace jobscope {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;
// Smaller pieces are copied: a copy is cheaper than another writev entry.
constexpr size_t kStableBytes = 4096;
// Entries of one writev; well below IOV_MAX (1,024).
constexpr size_t kMaxPieces = 256;
// Writeback is started each time that this much has been written.
// Otherwise the final fsync takes 15 to 30 ms for 27 MiB, 120 ms for 140 MiB.
constexpr uint64_t kBeginBytes = 4 << 20;
// With it, the longest temporary name stays below NAME_MAX (255).
constexpr size_t kSharedNameBytes = 200;

// Touches the pages of memory that may be mapped from a file. A write that meets an unmapped page
// drops the large folio it has filled so far and copies it again in smaller ones: four times as
// slow (ext4, Linux 6.18).
void MapPages(std::string_view bytes) {
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t before = reinterpret_cast<uintptr_t>(bytes.data()) % page;
  (void)madvise(const_cast<char*>(bytes.data()) - before, bytes.size() + before,
                MADV_POPULATE_READ);
}

}  // namespace

absl::Status SyncDirectory(const std::string& directory) {
  const int fd = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError("open", directory, errno);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  // Some file systems cannot sync a directory and return EINVAL.
  return result != 0 && error != EINVAL ? FileError("sync", directory, error) : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileSink>> FileSink::Create(const std::string& directory,
                                                           const std::string& file_name,
                                                           mode_t mode) {
  return CreateAs(absl::StrCat(".", file_name, ".partial"), directory, file_name, mode);
}

absl::StatusOr<std::unique_ptr<FileSink>> FileSink::CreateShared(const std::string& directory,
                                                                 const std::string& file_name,
                                                                 mode_t mode) {
  return CreateAs(
      absl::StrCat(".", file_name.substr(0, kSharedNameBytes), ".", RandomName(), ".partial"),
      directory, file_name, mode);
}

absl::StatusOr<std::unique_ptr<FileSink>> FileSink::CreateAs(const std::string& temporary_name,
                                                             const std::string& directory,
                                                             const std::string& file_name,
                                                             mode_t mode) {
  const std::string path = absl::StrCat(directory, "/", file_name);
  const std::string temporary_path = absl::StrCat(directory, "/", temporary_name);
  const int fd = AboveStandard(
      open(temporary_path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kPrivateFileMode));
  if (fd < 0) return FileError("create", temporary_path, errno);
  if (mode != kPrivateFileMode) fchmod(fd, mode);  // file systems ignore modes they do not support
  return std::unique_ptr<FileSink>(new FileSink(fd, directory, path, temporary_path));
}

FileSink::FileSink(int fd, std::string directory, std::string path, std::string temporary_path)
    : fd_(fd),
      directory_(std::move(directory)),
      path_(std::move(path)),
      temporary_path_(std::move(temporary_path)),
      buffer_(new char[kBufferBytes]) {
  pieces_.reserve(kMaxPieces);
}

FileSink::~FileSink() {
  if (fd_ >= 0) close(fd_);
  if (!published_) unlink(temporary_path_.c_str());
}

absl::Status FileSink::Write(std::string_view bytes, bool stable) {
  if (!status_.ok()) return status_;
  bytes_ += bytes.size();
  if (stable && bytes.size() >= kStableBytes) {
    MapPages(bytes);
    pieces_.push_back({const_cast<char*>(bytes.data()), bytes.size()});
    const bool enough = pieces_.size() >= kMaxPieces || bytes_ - begun_bytes_ >= kBeginBytes;
    return enough ? WriteAll() : absl::OkStatus();
  }
  while (!bytes.empty()) {
    const size_t room = kBufferBytes - buffered_;
    const size_t size = bytes.size() < room ? bytes.size() : room;
    char* const to = buffer_.get() + buffered_;
    std::memcpy(to, bytes.data(), size);
    buffered_ += size;
    bytes.remove_prefix(size);
    // The bytes follow the last piece without a gap: extend that piece.
    if (!pieces_.empty() &&
        static_cast<char*>(pieces_.back().iov_base) + pieces_.back().iov_len == to) {
      pieces_.back().iov_len += size;
    } else {
      pieces_.push_back({to, size});
    }
    if (buffered_ == kBufferBytes || pieces_.size() >= kMaxPieces) {
      const absl::Status status = WriteAll();
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

absl::Status FileSink::Flush() {
  if (!status_.ok()) return status_;
  return WriteAll();
}

absl::Status FileSink::WriteAll() {
  const int error = jobscope::WriteAll(fd_, pieces_.data(), pieces_.size());
  pieces_.clear();
  if (error != 0) return Failed("write", error);
  buffered_ = 0;
  if (bytes_ - begun_bytes_ >= kBeginBytes) {
    // A hint; fsync reports errors.
    (void)sync_file_range(fd_, static_cast<off_t>(begun_bytes_),
                          static_cast<off_t>(bytes_ - begun_bytes_), SYNC_FILE_RANGE_WRITE);
    begun_bytes_ = bytes_;
  }
  return absl::OkStatus();
}

absl::Status FileSink::Publish(Name name) {
  absl::Status status = Flush();
  if (!status.ok()) return status;
  if (name != Name::kMayVanish && fsync(fd_) != 0) return Failed("sync", errno);
  // NFS sends the last bytes now, and reports a quota that they exceed.
  if (close(std::exchange(fd_, -1)) != 0) return Failed("close", errno);
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) return Failed("rename", errno);
  published_ = true;
  return name == Name::kLasts ? SyncDirectory(directory_) : absl::OkStatus();
}

absl::Status FileSink::Failed(absl::string_view verb, int error) {
  status_ = FileError(verb, temporary_path_, error);
  return status_;
}

}  // namespace jobscope
