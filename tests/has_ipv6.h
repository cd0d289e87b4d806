// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_HAS_IPV6_H_
#define TESTS_HAS_IPV6_H_

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace jobscope {

// Returns whether this host has the loopback address of IPv6: a container may have the protocol
// without it.
inline bool HasIpv6() {
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  address.sin6_addr = in6addr_loopback;
  const int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound =
      fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  if (fd >= 0) close(fd);
  return bound;
}

}  // namespace jobscope

#endif  // TESTS_HAS_IPV6_H_
