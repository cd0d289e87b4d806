// SPDX-License-Identifier: Apache-2.0
#include "common/run/directories.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace jobscope {
namespace {

namespace fs = std::filesystem;

mode_t DirectoryMode(mode_t file_mode) { return file_mode | 0700 | ((file_mode & 0444) >> 2); }

// Gives a new directory its mode. By descriptor: where everybody may rename, somebody may have put
// a link in its place.
void Share(const std::string& path, mode_t mode) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat info {};
  if (fstat(fd, &info) == 0) {
    // Inherited: all that is created in a team's logdir belongs to the team's group.
    (void)!fchmod(fd, mode | (info.st_mode & S_ISGID));
  }
  close(fd);
}

// `shared`: the mode bits of a directory where everybody may create names.
absl::Status CheckOwnerIn(const std::string& parent, const std::string& child, mode_t shared) {
  struct stat info {};
  if (stat(parent.c_str(), &info) != 0 || (info.st_mode & shared) != shared) {
    return absl::OkStatus();
  }
  if (lstat(child.c_str(), &info) != 0) return Cannot("examine", child, errno);
  if (S_ISDIR(info.st_mode) && (info.st_uid == geteuid() || info.st_uid == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      child, S_ISDIR(info.st_mode) ? absl::StrCat(" belongs to user ", info.st_uid) : " is a link",
      ", and everybody may write to ", parent,
      ": others could read or replace the traces; name another logdir"));
}

}  // namespace

absl::Status Cannot(absl::string_view verb, const std::string& path, int error) {
  const std::string text = absl::StrCat("cannot ", verb, " ", path, ": ", std::strerror(error),
                                        "; name a logdir that can be written");
  return error == ENAMETOOLONG ? absl::InvalidArgumentError(text) : absl::UnavailableError(text);
}

absl::StatusOr<bool> MakeDirectory(const std::string& path, mode_t file_mode) {
  if (mkdir(path.c_str(), 0700) == 0) {
    if (DirectoryMode(file_mode) != 0700) Share(path, DirectoryMode(file_mode));
    return true;
  }
  if (errno == EEXIST) return false;
  return Cannot("create", path, errno);
}

absl::Status MakeParents(const std::string& path, mode_t file_mode) {
  const fs::path directory(path);
  std::error_code error;
  if (fs::is_directory(directory, error)) return absl::OkStatus();
  if (directory.has_relative_path()) {
    const absl::Status status = MakeParents(directory.parent_path().string(), file_mode);
    if (!status.ok()) return status;
  }
  const absl::StatusOr<bool> made = MakeDirectory(path, file_mode);
  if (!made.ok() || *made || fs::is_directory(directory, error)) return made.status();
  return Cannot("create", path, ENOTDIR);
}

absl::Status CheckOwner(const std::string& parent, const std::string& child) {
  return CheckOwnerIn(parent, child, S_IWOTH);
}

absl::Status MakeLogdir(const std::string& logdir, mode_t file_mode) {
  if (absl::Status made = MakeParents(logdir, file_mode); !made.ok()) return made;
  std::error_code error;
  const fs::path real = fs::canonical(logdir, error);
  return error ? absl::OkStatus()
               : CheckOwnerIn(real.parent_path().string(), real.string(), S_IWOTH | S_ISVTX);
}

absl::Status MakeOwn(const std::string& parent, const std::string& child, mode_t file_mode) {
  const absl::StatusOr<bool> made = MakeDirectory(child, file_mode);
  return made.ok() ? CheckOwner(parent, child) : made.status();
}

}  // namespace jobscope
