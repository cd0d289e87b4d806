// SPDX-License-Identifier: Apache-2.0
#include "client/native/spool/spool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/native/wire/capture_message.h"
#include "common/files/write_all.h"
#include "common/xspace/assemble/read_meter.h"

namespace jobscope {
namespace {

// Well below IOV_MAX (1,024).
constexpr size_t kMaxPieces = 256;
// Bounds of the window mapped at once, unless more is needed: a few windows for most spools, and
// for ten thousand small ones no more than 10 GiB of addresses.
constexpr uint64_t kMinWindowBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxWindowBytes = uint64_t{256} << 20;
// A multiple of any page size.
constexpr uint64_t kWindowAlignment = uint64_t{64} << 10;

// How much one spool, and all spools together, keep in memory.
constexpr uint64_t kMaxMemoryBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxAllMemoryBytes = uint64_t{64} << 20;

// Bytes of whole fields, in all spools of this process.
std::atomic<uint64_t> g_spooled_bytes{0};
// Bytes written to spools in memory.
std::atomic<uint64_t> g_memory_bytes{0};

// Falls back to a named file: not every file system supports O_TMPFILE (older overlayfs and NFS do
// not).
int OpenUnlinked(const std::string& directory) {
  const int fd = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  std::string path = absl::StrCat(directory, "/.spool-XXXXXX");
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Spool>> Spool::Create(const std::string& directory) {
  // In memory first: with a thousand workers, creating and removing spool files took a sixth of the
  // client's time.
  const int fd = memfd_create("jobscope-spool", MFD_CLOEXEC);
  std::unique_ptr<Spool> spool(new Spool(fd, directory));
  if (fd >= 0) return spool;
  if (absl::Status moved = spool->MoveToDisk(); !moved.ok()) return moved;
  return spool;
}

Spool::Spool(int fd, std::string directory)
    : fd_(fd),
      directory_(std::move(directory)),
      name_(absl::StrCat("the spool file in ", directory_)) {}

Spool::~Spool() {
  if (fd_ >= 0) close(fd_);
  g_spooled_bytes -= bytes_;
  g_memory_bytes -= memory_bytes_;
}

absl::Status Spool::MoveToDisk() {
  const int fd = OpenUnlinked(directory_);
  if (fd < 0) {
    const int error = errno;
    absl::Status status = FileError("create", name_, error);
    if (error != EMFILE && error != ENFILE) return status;
    return absl::ResourceExhaustedError(
        absl::StrCat(status.message(), "; raise the limit of open files (ulimit -n)"));
  }
  const uint64_t size = bytes_ + part_bytes_;
  int error = 0;
  if (size > 0) {
    iovec all{mmap(nullptr, size, PROT_READ, MAP_SHARED, fd_, 0), size};
    if (all.iov_base == MAP_FAILED) {
      error = errno;
    } else {
      void* const data = all.iov_base;
      error = WriteAll(fd, &all, 1);
      munmap(data, size);
    }
  }
  // The previous file stays valid.
  if (error != 0) {
    close(fd);
    return FileError("write", name_, error);
  }
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  in_memory_ = false;
  g_memory_bytes -= std::exchange(memory_bytes_, 0);
  return absl::OkStatus();
}

void Spool::Grow(uint64_t bytes) {
  bytes_ += bytes;
  g_spooled_bytes += bytes;
}

uint64_t Spool::AllBytes() { return g_spooled_bytes; }

bool Spool::DiskIsLow() const {
  struct statvfs disk {};
  if (statvfs(directory_.c_str(), &disk) != 0) return false;
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  return free < g_spooled_bytes + bytes_;
}

absl::Status Spool::AppendPart(std::string_view bytes) {
  std::vector<iovec> piece{{const_cast<char*>(bytes.data()), bytes.size()}};
  const absl::StatusOr<uint64_t> written = Write(&piece);
  if (written.ok()) part_bytes_ += *written;
  return written.status();
}

void Spool::EndPart() { Grow(std::exchange(part_bytes_, 0)); }

absl::Status Spool::Append(const std::vector<std::string_view>& fields) {
  if (std::exchange(part_bytes_, 0) != 0 && lseek(fd_, static_cast<off_t>(bytes_), SEEK_SET) < 0) {
    status_ = FileError("seek in", name_, errno);
    return status_;
  }
  std::vector<iovec> pieces;
  const auto write = [this, &pieces] {
    const absl::StatusOr<uint64_t> written = Write(&pieces);
    if (written.ok()) Grow(*written);
    return written.status();
  };
  for (const std::string_view field : fields) {
    // Fields of one message are mostly adjacent.
    if (!pieces.empty() &&
        static_cast<const char*>(pieces.back().iov_base) + pieces.back().iov_len == field.data()) {
      pieces.back().iov_len += field.size();
      continue;
    }
    if (pieces.size() == kMaxPieces) {
      absl::Status status = write();
      if (!status.ok()) return status;
    }
    pieces.push_back({const_cast<char*>(field.data()), field.size()});
  }
  return write();
}

absl::StatusOr<uint64_t> Spool::Write(std::vector<iovec>* pieces) {
  if (!status_.ok()) return status_;
  if (pieces->empty()) return 0;
  uint64_t size = 0;
  for (const iovec& piece : *pieces) size += piece.iov_len;
  if (in_memory_) {
    memory_bytes_ += size;
    const bool room = (g_memory_bytes += size) <= kMaxAllMemoryBytes;
    if (!room || bytes_ + part_bytes_ + size > kMaxMemoryBytes) {
      status_ = MoveToDisk();
      if (!status_.ok()) return status_;
    }
  }
  const int error = WriteAll(fd_, pieces->data(), pieces->size());
  pieces->clear();
  if (error != 0) {
    status_ = FileError("write", name_, error);
    return status_;
  }
  return size;
}

absl::StatusOr<std::unique_ptr<SpoolItems>> SpoolItems::Read(const Spool& spool) {
  auto items = std::make_unique<SpoolItems>(&spool);
  if (absl::Status read = items->Advance([](const xspace::ItemView&) {}); !read.ok()) return read;
  return items;
}

absl::StatusOr<std::string_view> SpoolItems::Map(uint64_t offset) {
  const uint64_t end = spool_->bytes();
  // Beyond the data moved to disk, the old window holds nothing.
  if (windows_.empty() || windows_.back().fd != spool_->fd_ ||
      end - windows_.back().offset > windows_.back().size) {
    const uint64_t begin = offset / kWindowAlignment * kWindowAlignment;
    // Maps about twice the current size, so that few windows are needed.
    const uint64_t size = std::max(end - begin, std::clamp(end, kMinWindowBytes, kMaxWindowBytes));
    void* const data =
        mmap(nullptr, size, PROT_READ, MAP_SHARED, spool_->fd_, static_cast<off_t>(begin));
    if (data == MAP_FAILED) return FileError("map", spool_->name_, errno);
    windows_.push_back({spool_->fd_, begin, static_cast<char*>(data), size});
  }
  const Window& window = windows_.back();
  return std::string_view(window.data + (offset - window.offset), end - offset);
}

absl::Status SpoolItems::Advance(absl::FunctionRef<void(const xspace::ItemView& item)> take) {
  if (read_bytes_ == spool_->bytes()) return absl::OkStatus();
  const absl::StatusOr<std::string_view> fields = Map(read_bytes_);
  if (!fields.ok()) return fields.status();
  xspace::ReadMeter meter([this](const std::vector<uintptr_t>& chunks) { ReleasePages(chunks); });
  absl::Status read = ReadItems(*fields, [this, &meter, take](const ItemField& item) {
    meter.Add(item.field);
    items_.push_back({items_.size() + 1, item.kind, item.body});
    take(items_.back());
    return absl::OkStatus();
  });
  meter.ReleaseNow();
  read_bytes_ += fields->size();
  return read;
}

SpoolItems::~SpoolItems() {
  for (const Window& window : windows_) munmap(window.data, window.size);
}

void SpoolItems::ReleasePages(const std::vector<uintptr_t>& chunks) const {
  constexpr uintptr_t kChunk = xspace::ReadMeter::kChunkBytes;
  for (const Window& window : windows_) {
    const auto begin = reinterpret_cast<uintptr_t>(window.data);
    for (const uintptr_t chunk : chunks) {
      // A page fault may map beyond the chunk's edges: without the neighbours, 16 MB of each GiB
      // stayed resident (measured).
      const uintptr_t from = std::max(chunk - std::min(chunk, kChunk), begin);
      const uintptr_t to = std::min(chunk + 2 * kChunk, begin + window.size);
      if (from < to) madvise(window.data + (from - begin), to - from, MADV_DONTNEED);
    }
  }
}

}  // namespace jobscope
