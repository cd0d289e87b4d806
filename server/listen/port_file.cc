// SPDX-License-Identifier: Apache-2.0
#include "server/listen/port_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files/random_name.h"
#include "common/files/regular_file.h"

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
      absl::StrCat("cannot write the address of this worker to ", path, ": ", strerror(error),
                   "; JOBSCOPE_PORT_DIR must name an existing directory that is writable"));
}

// Creates a new file beside `path`, under a name that cannot be guessed: in a directory that others
// can write to, they could place a FIFO or a link there. Returns -1 and sets errno on failure.
int CreateTemporary(const std::string& path, std::string* temporary) {
  *temporary = absl::StrCat(path, ".", RandomName(), ".tmp");
  return open(temporary->c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
              0644);
}

}  // namespace

std::string PortFilePath(absl::string_view directory, const v1::Identity& identity) {
  if (identity.has_rank()) return absl::StrCat(directory, "/", identity.rank(), ".addr");
  // Containers that share the directory have the same small pids.
  std::string host = identity.host();
  for (char& c : host) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  }
  return absl::StrCat(directory, "/", host, "-", identity.pid(), ".addr");
}

absl::StatusOr<std::string> WritePortFile(absl::string_view directory, const v1::Identity& identity,
                                          absl::string_view bound_address) {
  const std::string path = PortFilePath(directory, identity);
  const std::string content = Content(identity, bound_address);
  std::string temporary;
  const int fd = CreateTemporary(path, &temporary);
  if (fd < 0) return WriteError(path, errno);
  const ssize_t written = write(fd, content.data(), content.size());
  int error = written == static_cast<ssize_t>(content.size()) ? 0 : (written < 0 ? errno : ENOSPC);
  if (close(fd) != 0 && error == 0) error = errno;
  // Replaces the existing file, also a FIFO or a link, without opening it.
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return path;
  unlink(temporary.c_str());
  return WriteError(path, error);
}

void RemovePortFile(const std::string& path, const v1::Identity& identity,
                    absl::string_view bound_address) {
  const std::string content = Content(identity, bound_address);
  const absl::StatusOr<RegularFile> file = RegularFile::Open(path);
  if (!file.ok() || file->info().st_uid != geteuid()) return;
  const absl::StatusOr<std::string> text = file->Read(content.size());
  if (text.ok() && *text == content) unlink(path.c_str());
}

}  // namespace jobscope
