// SPDX-License-Identifier: Apache-2.0
#include "common/net/resolver.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace jobscope {

absl::StatusOr<std::vector<std::string>> ResolveWithSystem(const std::string& name) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot resolve ", name, ": ",
                     error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  std::vector<std::string> v4;
  std::vector<std::string> v6;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0,
                    NI_NUMERICHOST) != 0) {
      continue;
    }
    std::vector<std::string>& family = entry->ai_family == AF_INET6 ? v6 : v4;
    // A name may occur several times in /etc/hosts.
    if (std::find(family.begin(), family.end(), text) == family.end()) family.emplace_back(text);
  }
  return v4.empty() ? v6 : v4;
}

}  // namespace jobscope
