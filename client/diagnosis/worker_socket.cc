// SPDX-License-Identifier: Apache-2.0
#include "client/diagnosis/worker_socket.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/clock/monotonic.h"

namespace jobscope {
namespace {

// Returns -1 if not connected in time.
int ConnectSocket(const sockaddr* address, socklen_t size, absl::Time deadline) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int error = connect(fd, address, size) == 0 ? 0 : errno;
  if (error == EINPROGRESS && AwaitSocket(fd, POLLOUT, deadline)) {
    socklen_t error_size = sizeof(error);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
  }
  if (error == 0) return fd;
  close(fd);
  return -1;
}

}  // namespace

bool AwaitSocket(int fd, short events, absl::Time deadline) {
  while (true) {
    const int64_t left_ms = absl::ToInt64Milliseconds(deadline - SteadyNow());
    if (left_ms <= 0) return false;
    pollfd wanted = {fd, events, 0};
    const int ready = poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left_ms, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

int ConnectTo(const Endpoint& endpoint, absl::Time deadline) {
  if (endpoint.port == 0) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const absl::string_view path = absl::string_view(endpoint.address).substr(sizeof("unix:") - 1);
    std::copy_n(path.data(), std::min(path.size(), sizeof(address.sun_path) - 1), address.sun_path);
    return ConnectSocket(reinterpret_cast<const sockaddr*>(&address), sizeof(address), deadline);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(endpoint.port);
  if (getaddrinfo(endpoint.host.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const int fd = ConnectSocket(entry->ai_addr, entry->ai_addrlen, deadline);
    if (fd >= 0) return fd;
  }
  return -1;
}

}  // namespace jobscope
