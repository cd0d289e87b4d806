// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/worker_owner.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/net/socket_owner.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

bool IsLoopback(const sockaddr_in6& address) {
  return IN6_IS_ADDR_LOOPBACK(&address.sin6_addr) ||
         (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr) && address.sin6_addr.s6_addr[12] == 127);
}

// Returns whether `peer` is a loopback address with this port.
bool IsLocal(const sockaddr_storage& peer, uint16_t port) {
  if (peer.ss_family == AF_INET) {
    const auto& address = reinterpret_cast<const sockaddr_in&>(peer);
    return ntohs(address.sin_port) == port && (ntohl(address.sin_addr.s_addr) >> 24) == 127;
  }
  if (peer.ss_family != AF_INET6) return false;
  const auto& address = reinterpret_cast<const sockaddr_in6&>(peer);
  return ntohs(address.sin6_port) == port && IsLoopback(address);
}

// Returns the path to which the other end of a Unix stream socket was bound. Nothing if `fd` is
// another kind of socket, or its other end has no path. A listener that is reached by a path always
// has one.
std::optional<std::string> BoundPath(int fd, const sockaddr_storage& peer, socklen_t peer_size) {
  constexpr size_t kPathOffset = offsetof(sockaddr_un, sun_path);
  if (peer.ss_family != AF_UNIX || peer_size <= kPathOffset) return std::nullopt;
  int type = 0;
  socklen_t type_size = sizeof(type);
  if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_STREAM) {
    return std::nullopt;
  }
  const char* const path = reinterpret_cast<const sockaddr_un&>(peer).sun_path;
  const size_t room = std::min<size_t>(peer_size, sizeof(peer)) - kPathOffset;
  if (path[0] == '\0') return std::nullopt;  // an abstract name
  return std::string(path, strnlen(path, room));
}

// Describes what `fd` is connected to if that may be the endpoint; nothing if it cannot be.
//
// For a Unix socket the path does not decide: it is the one that the listener was bound to, which
// its owner chose. The file may have been renamed since, so a listener bound elsewhere may answer
// at the endpoint's path; or it may be mounted at another path here. So every connection to a path
// may be the endpoint's.
std::optional<std::string> MayBe(int fd, const Endpoint& endpoint) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return std::nullopt;
  if (endpoint.port != 0) {
    return IsLocal(peer, endpoint.port) ? std::optional<std::string>(endpoint.address)
                                        : std::nullopt;
  }
  const std::optional<std::string> path = BoundPath(fd, peer, size);
  if (!path.has_value()) return std::nullopt;
  if (*path == absl::StripPrefix(endpoint.target, "unix:")) return endpoint.address;
  return absl::StrCat("unix:", Printable(*path, sizeof(sockaddr_un::sun_path)),
                      ", which may be the one that was reached at ", endpoint.address, ",");
}

}  // namespace

absl::Status CheckWorkerOwner(const Endpoint& endpoint) {
  DIR* const directory = opendir("/proc/self/fd");
  if (directory == nullptr) {
    return absl::UnavailableError(
        "cannot read /proc/self/fd, which is needed to find the process that listens there");
  }
  const absl::Cleanup close_directory = [directory] { closedir(directory); };
  bool connected = false;
  while (const dirent* const entry = readdir(directory)) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry->d_name, &fd)) continue;
    const std::optional<std::string> listener = MayBe(fd, endpoint);
    if (!listener.has_value()) continue;
    const auto user = PeerUser(fd);
    if (!user.ok()) {
      // Another thread may have closed it meanwhile: a connection to another worker.
      if (!MayBe(fd, endpoint).has_value()) continue;
      return absl::UnavailableError(
          absl::StrCat("the process that listens on ", *listener, ": ", user.status().message()));
    }
    if (*user != 0 && *user != geteuid()) {
      return absl::PermissionDeniedError(
          absl::StrCat("the process that listens on ", *listener, " is of user ", *user,
                       ", not of user ", geteuid(),
                       " (this client's) or root; call as its user, or give the "
                       "worker a certificate and this client --tls_ca"));
    }
    connected = true;
  }
  return connected ? absl::OkStatus() : absl::UnavailableError("the connection has ended");
}

}  // namespace jobscope
