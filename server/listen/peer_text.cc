// SPDX-License-Identifier: Apache-2.0
#include "server/listen/peer_text.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace jobscope {

std::string PeerText(const sockaddr_storage& address) {
  char host[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, host, sizeof(host));
    return absl::StrCat(host, ":", ntohs(v4.sin_port));
  }
  if (address.ss_family != AF_INET6) return {};  // a unix socket
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    // ::ffff:a.b.c.d: an IPv4 client of a socket that accepts both.
    constexpr size_t kPrefixBytes = 12;
    inet_ntop(AF_INET, v6.sin6_addr.s6_addr + kPrefixBytes, host, sizeof(host));
    return absl::StrCat(host, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof(host));
  const std::string scope = v6.sin6_scope_id == 0 ? "" : absl::StrCat("%", v6.sin6_scope_id);
  return absl::StrCat("[", host, scope, "]:", ntohs(v6.sin6_port));
}

}  // namespace jobscope
