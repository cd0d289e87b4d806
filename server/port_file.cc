// SPDX-License-Identifier: Apache-2.0
#include "server/port_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace jobscope {
namespace {

std::string Content(const v1::Identity& identity, absl::string_view bound_address) {
  for (absl::string_view wildcard : {"0.0.0.0:", "[::]:"}) {
    if (absl::ConsumePrefix(&bound_address, wildcard)) {
      return absl::StrCat(identity.host(), ":", bound_address, "\n");
    }
  }
  return absl::StrCat(bound_address, "\n");
}

absl::Status WriteError(absl::string_view path, int error) {
  return absl::PermissionDeniedError(
      absl::StrCat("can't write the address of this worker to ", path, ": ", strerror(error),
                   "; JOBSCOPE_PORT_DIR must name an existing directory that is writable"));
}

}  // namespace

std::string PortFilePath(absl::string_view directory, const v1::Identity& identity) {
  const int64_t name = identity.has_rank() ? identity.rank() : identity.pid();
  return absl::StrCat(directory, "/", name, ".addr");
}

absl::StatusOr<std::string> WritePortFile(absl::string_view directory, const v1::Identity& identity,
                                          absl::string_view bound_address) {
  const std::string path = PortFilePath(directory, identity);
  // The pid keeps two workers of one rank (a restart that overlaps) from writing to one temporary
  // file.
  const std::string temporary = absl::StrCat(path, ".", identity.pid(), ".tmp");
  const std::string content = Content(identity, bound_address);
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return WriteError(temporary, errno);
  const ssize_t written = write(fd, content.data(), content.size());
  int error = written == static_cast<ssize_t>(content.size()) ? 0 : (written < 0 ? errno : ENOSPC);
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return path;
  unlink(temporary.c_str());
  return WriteError(path, error);
}

void RemovePortFile(const std::string& path, const v1::Identity& identity,
                    absl::string_view bound_address) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return;
  if (line + "\n" == Content(identity, bound_address)) unlink(path.c_str());
}

}  // namespace jobscope
