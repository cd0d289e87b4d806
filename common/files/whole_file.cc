// SPDX-License-Identifier: Apache-2.0
#include "common/files/whole_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/files/file_sink.h"

namespace jobscope {
namespace {

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
  absl::StatusOr<std::unique_ptr<FileSink>> file =
      FileSink::CreateShared(parent.empty() ? "." : parent, whole.filename().string(), mode);
  if (!file.ok()) return file.status();
  const absl::Status status = (*file)->Write(bytes, /*stable=*/true);
  if (!status.ok()) return status;
  return (*file)->Publish(FileSink::Name::kMayVanish);
}

}  // namespace jobscope
