// SPDX-License-Identifier: Apache-2.0
#include "common/net/socket_table.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace jobscope {
namespace {

// Bounds the read of /proc/net/tcp, at 150 bytes per line: more than 100,000 sockets. Beyond it,
// the user is unknown, and the connection refused.
constexpr size_t kMaxTableBytes = size_t{16} << 20;
constexpr uint64_t kAllUsers = 4'294'967'295;
constexpr uint32_t kDefaultOverflowUser = 65534;

std::optional<TcpSocket> ParseLine(absl::string_view line, absl::string_view local,
                                   absl::string_view remote) {
  enum Column { kLocal = 1, kRemote, kState, kUser = 7, kInode = 9 };
  // A cheap test first: most lines are of other sockets.
  if (!absl::StrContains(line, local) || !absl::StrContains(line, remote)) return std::nullopt;
  const std::vector<absl::string_view> columns = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (columns.size() <= kInode || columns[kLocal] != local || columns[kRemote] != remote) {
    return std::nullopt;
  }
  TcpSocket found;
  if (!absl::SimpleHexAtoi(columns[kState], &found.state) ||
      !absl::SimpleAtoi(columns[kUser], &found.user) ||
      !absl::SimpleAtoi(columns[kInode], &found.inode)) {
    return std::nullopt;
  }
  return found;
}

// Returns the first 256 bytes of a file in /proc; empty if it cannot be read.
std::string ReadShortFile(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char text[256];
  const ssize_t size = read(fd, text, sizeof(text));
  close(fd);
  return size <= 0 ? std::string() : std::string(text, static_cast<size_t>(size));
}

uint32_t OverflowUser(const char* path) {
  uint32_t number = 0;
  return absl::SimpleAtoi(ReadShortFile(path), &number) ? number : kDefaultOverflowUser;
}

}  // namespace

std::optional<TcpSocket> SearchTable(const char* path, absl::string_view local,
                                     absl::string_view remote, bool* readable) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  const absl::Cleanup close_fd = [fd] { close(fd); };
  std::vector<char> buffer(size_t{64} << 10);
  size_t used = 0;
  for (size_t total = 0; total < kMaxTableBytes;) {
    const ssize_t size = read(fd, buffer.data() + used, buffer.size() - used);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return std::nullopt;
    if (size == 0) {
      *readable = true;
      return std::nullopt;
    }
    total += static_cast<size_t>(size);
    used += static_cast<size_t>(size);
    absl::string_view rest(buffer.data(), used);
    for (size_t end = rest.find('\n'); end != absl::string_view::npos; end = rest.find('\n')) {
      if (auto found = ParseLine(rest.substr(0, end), local, remote)) return found;
      rest.remove_prefix(end + 1);
    }
    used = rest.size();
    if (used == buffer.size()) return std::nullopt;  // a line this long is not the kernel's
    memmove(buffer.data(), rest.data(), used);
  }
  return std::nullopt;
}

bool AllUsersHaveNumbers(const char* uid_map_path) {
  const std::string text = ReadShortFile(uid_map_path);
  const std::vector<absl::string_view> columns =
      absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  uint64_t count = 0;
  return columns.size() == 3 && absl::SimpleAtoi(columns[2], &count) && count == kAllUsers;
}

bool MayLackANumber(uint32_t user, const char* uid_map_path, const char* overflow_uid_path) {
  return user == OverflowUser(overflow_uid_path) && !AllUsersHaveNumbers(uid_map_path);
}

}  // namespace jobscope
