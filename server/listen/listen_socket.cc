// SPDX-License-Identifier: Apache-2.0
#include "server/listen/listen_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/files/directory_lock.h"

namespace jobscope {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";
constexpr mode_t kPrivateMode = 0600;
constexpr mode_t kOpenMode = 0666;
// A process that opens a socket holds the lock for less than a millisecond; the rest is for a busy
// machine. Forks by the application's threads wait meanwhile, for at most 2 s.
constexpr std::chrono::milliseconds kLockTimeout(300);

absl::Status Failure(absl::string_view text, absl::string_view call) {
  return absl::UnavailableError(absl::StrCat(text, ": ", call, ": ", strerror(errno)));
}

// ---- unix sockets ----

sockaddr_un UnixAddress(absl::string_view path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path = path.substr(0, sizeof(address.sun_path) - 1);  // ParseListenAddress refuses longer ones
  std::copy(path.begin(), path.end(), address.sun_path);
  return address;
}

// Removes a socket's file if no process listens on it, and none is about to: its opener holds the
// directory's lock, which is `lock` if it is held at all.
absl::Status RemoveStale(const std::string& path, const DirectoryLock& lock) {
  struct stat info = {};
  if (lstat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::OkStatus()
                           : Failure(absl::StrCat("unix socket ", path), "lstat");
  }
  if (!S_ISSOCK(info.st_mode)) {
    return absl::UnavailableError(absl::StrCat(
        path,
        " exists and is not a socket: choose another path, or remove it if nothing needs it"));
  }
  const sockaddr_un address = UnixAddress(path);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Failure(path, "socket");
  const absl::Cleanup close_fd = [fd] { close(fd); };
  const int error =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  if (error == 0 || error == EAGAIN || error == EINPROGRESS) {  // EAGAIN: its queue is full
    return absl::AlreadyExistsError(absl::StrCat("another process listens on unix:", path));
  }
  if (error != ECONNREFUSED) {
    return absl::UnavailableError(absl::StrCat("unix socket ", path, ": ", strerror(error)));
  }
  if (lock.is_taken()) {
    return absl::UnavailableError(absl::StrCat(
        "cannot tell whether unix:", path, " is in use: another process holds the lock (flock) of ",
        "its directory; try again, remove the file if no process uses it, or choose another path"));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Failure(absl::StrCat("unix socket ", path), "cannot remove the old one");
  }
  return absl::OkStatus();
}

// Sets the mode if a umask took bits from it. A umask only takes bits, so nobody can connect
// meanwhile who may not.
void GrantMode(const std::string& path, mode_t mode) {
  const int fd = open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return;
  struct stat info = {};
  if (fstat(fd, &info) == 0 && S_ISSOCK(info.st_mode) && (info.st_mode & 07777) != mode) {
    const std::string same_file = absl::StrCat("/proc/self/fd/", fd);
    (void)!chmod(same_file.c_str(), mode);
  }
  close(fd);
}

// ---- TCP ----

bool IsWildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

uint16_t PortOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                   : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// Returns the given port on every address of the host.
sockaddr_storage Wildcard(int family, uint16_t port) {
  sockaddr_storage address = {};
  address.ss_family = static_cast<sa_family_t>(family);
  if (family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
  }
  return address;
}

// Returns a bound and listening descriptor, or -1 and errno.
int ListenOn(const sockaddr_storage& address, const ListenSocketOptions& options) {
  const int fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  const int off = 0;
  // Allows binding over the last owner's TIME_WAIT, but not over a listener.
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // Accepted connections inherit these.
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (options.user_timeout_ms > 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &options.user_timeout_ms,
               sizeof(options.user_timeout_ms));
  }
  if (address.ss_family == AF_INET6) {
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  const socklen_t size = address.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      listen(fd, SOMAXCONN) == 0) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

absl::Status BindError(absl::string_view text, int error) {
  switch (error) {
    case EADDRINUSE:
      return absl::AlreadyExistsError(absl::StrCat("port of ", text, " is taken"));
    case EADDRNOTAVAIL:
      return absl::UnavailableError(absl::StrCat(text, " is not an address of this host"));
    case EACCES:
      return absl::UnavailableError(
          absl::StrCat("no permission to listen on ", text, ": choose a port over 1023"));
    default:
      return absl::UnavailableError(absl::StrCat("cannot listen on ", text, ": ", strerror(error)));
  }
}

}  // namespace

ListenSocket::~ListenSocket() {
  if (fd_ < 0) return;
  struct stat info = {};
  if (!path_.empty() && lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ &&
      info.st_ino == inode_) {
    unlink(path_.c_str());
  }
  close(fd_);
}

ListenSocket::ListenSocket(ListenSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      target_(std::move(other.target_)),
      path_(std::move(other.path_)),
      device_(other.device_),
      inode_(other.inode_) {}

absl::StatusOr<ListenSocket> ListenSocket::Open(const BindTarget& target,
                                                const ListenSocketOptions& options) {
  return absl::StartsWith(target.text, kUnixPrefix) ? OpenUnix(target, options)
                                                    : OpenTcp(target, options);
}

absl::StatusOr<ListenSocket> ListenSocket::OpenUnix(const BindTarget& target,
                                                    const ListenSocketOptions& options) {
  const std::string path(absl::StripPrefix(target.text, kUnixPrefix));
  // Until the socket listens: before, it looks stale to others.
  const DirectoryLock lock(path, kLockTimeout);
  if (absl::Status status = RemoveStale(path, lock); !status.ok()) return status;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Failure(path, "socket");
  ListenSocket socket(fd, target);
  // The file gets the mode of the unbound socket, less the umask. With a chmod after the bind,
  // others could connect for an instant.
  const mode_t mode = options.unix_mode == UnixSocketMode::kAll ? kOpenMode : kPrivateMode;
  const bool by_umask = options.unix_mode == UnixSocketMode::kUmask;
  if (!by_umask && fchmod(fd, mode) != 0) return Failure(path, "fchmod");
  const sockaddr_un address = UnixAddress(path);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == EADDRINUSE) {
      return absl::AlreadyExistsError(absl::StrCat("another process listens on unix:", path));
    }
    if (errno == ENOENT) {
      return absl::UnavailableError(
          absl::StrCat("cannot create the unix socket ", path,
                       ": no such directory; create it, or choose another path"));
    }
    return Failure(absl::StrCat("cannot create the unix socket ", path), "bind");
  }
  struct stat info = {};
  if (lstat(path.c_str(), &info) == 0) {
    socket.path_ = path;
    socket.device_ = info.st_dev;
    socket.inode_ = info.st_ino;
  }
  if (!by_umask) GrantMode(path, mode);
  if (listen(fd, SOMAXCONN) != 0) return Failure(path, "listen");
  return socket;
}

absl::StatusOr<ListenSocket> ListenSocket::OpenTcp(const BindTarget& target,
                                                   const ListenSocketOptions& options) {
  const absl::string_view text = target.text;
  const size_t colon = text.rfind(':');
  absl::string_view host = text.substr(0, colon);
  absl::ConsumePrefix(&host, "[");
  absl::ConsumeSuffix(&host, "]");
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(std::string(host).c_str(),
                                std::string(text.substr(colon + 1)).c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(absl::StrCat(text, ": ", gai_strerror(error)));
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };

  sockaddr_storage address = {};
  memcpy(&address, found->ai_addr, std::min<size_t>(found->ai_addrlen, sizeof(address)));
  int fd = -1;
  if (IsWildcard(found->ai_addr)) {
    const uint16_t port = PortOf(address);
    fd = ListenOn(Wildcard(AF_INET6, port), options);
    if (fd < 0 && (errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL)) {  // IPv6 is off
      fd = ListenOn(Wildcard(AF_INET, port), options);
    }
  } else {
    fd = ListenOn(address, options);
  }
  if (fd < 0) return BindError(text, errno);
  ListenSocket socket(fd, target);
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return Failure(text, "getsockname");
  }
  socket.target_.text = absl::StrCat(text.substr(0, colon), ":", PortOf(bound));
  return socket;
}

}  // namespace jobscope
