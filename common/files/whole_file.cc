// SPDX-License-Identifier: Apache-2.0
#include "common/files/whole_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/files/directory_lock.h"
#include "common/files/file_sink.h"

namespace jobscope {
namespace {

// Longer than other writers of the directory take, on a busy disk too.
constexpr std::chrono::seconds kLockTimeout(10);

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "no regular file";
}

}  // namespace

absl::Status WriteWholeFile(const std::string& path, std::string_view bytes, mode_t mode) {
  struct stat there = {};
  if (lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot write ", path, ": it is ", KindOf(there.st_mode), "; name a file"));
  }
  const std::filesystem::path whole(path);
  const std::string parent = whole.parent_path().string();
  const std::string directory = parent.empty() ? "." : parent;
  const std::string name = whole.filename().string();
  // Until the file has its name: the temporary file belongs to one writer. Without locks on the
  // file system, a second writer may publish a part.
  const DirectoryLock lock(path, kLockTimeout);
  if (lock.is_taken()) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path,
                                               ": another process has held the lock (flock) of ",
                                               directory, " for 10 s; try again"));
  }
  absl::StatusOr<std::unique_ptr<FileSink>> file = FileSink::Create(directory, name, mode);
  if (absl::IsAlreadyExists(file.status())) {
    // A writer was killed, and its temporary file remains.
    (void)unlink(FileSink::TemporaryPath(directory, name).c_str());
    file = FileSink::Create(directory, name, mode);
  }
  if (!file.ok()) return file.status();
  const absl::Status status = (*file)->Write(bytes, /*stable=*/true);
  if (!status.ok()) return status;
  return (*file)->Publish(FileSink::Name::kMayVanish);
}

}  // namespace jobscope
