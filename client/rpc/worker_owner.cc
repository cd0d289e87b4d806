// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/worker_owner.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/net/socket_owner.h"

namespace jobscope {
namespace {

bool IsLoopback(const sockaddr_in6& address) {
  return IN6_IS_ADDR_LOOPBACK(&address.sin6_addr) ||
         (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr) && address.sin6_addr.s6_addr[12] == 127);
}

// Whether `fd` is connected to the endpoint.
bool LeadsTo(int fd, const Endpoint& endpoint) {
  sockaddr_storage peer = {};
  socklen_t size = sizeof(peer);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;
  switch (peer.ss_family) {
    case AF_UNIX: {
      if (endpoint.port != 0) return false;
      const auto& address = reinterpret_cast<const sockaddr_un&>(peer);
      constexpr size_t kPathOffset = offsetof(sockaddr_un, sun_path);
      if (size <= kPathOffset) return false;  // a socket without a name
      absl::string_view path(address.sun_path, size - kPathOffset);
      absl::ConsumeSuffix(&path, absl::string_view("\0", 1));
      return path == absl::StripPrefix(endpoint.target, "unix:");
    }
    case AF_INET: {
      const auto& address = reinterpret_cast<const sockaddr_in&>(peer);
      return endpoint.port != 0 && ntohs(address.sin_port) == endpoint.port &&
             (ntohl(address.sin_addr.s_addr) >> 24) == 127;
    }
    case AF_INET6: {
      const auto& address = reinterpret_cast<const sockaddr_in6&>(peer);
      return endpoint.port != 0 && ntohs(address.sin6_port) == endpoint.port && IsLoopback(address);
    }
    default:
      return false;
  }
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
    if (!absl::SimpleAtoi(entry->d_name, &fd) || !LeadsTo(fd, endpoint)) continue;
    const auto user = PeerUser(fd);
    if (!user.ok()) return absl::UnavailableError(user.status().message());
    if (*user != 0 && *user != geteuid()) {
      return absl::PermissionDeniedError(
          absl::StrCat("the process that listens on ", endpoint.address, " is of user ", *user,
                       ", not of user ", geteuid(),
                       " (this client's) or root; call as its user, or give the "
                       "worker a certificate and this client --tls_ca"));
    }
    connected = true;
  }
  return connected ? absl::OkStatus() : absl::UnavailableError("the connection has ended");
}

}  // namespace jobscope
