// SPDX-License-Identifier: Apache-2.0
#include "server/listen/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/net/endpoint.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";
constexpr int kMaxPort = 65535;

absl::Status Malformed(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("address \"", Printable(text, 200), "\": ", why,
                   "; write host:port, [v6]:port or unix:/path, such as 127.0.0.1:6009"));
}

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

std::string Text(const sockaddr* address, socklen_t size, uint16_t port) {
  char host[NI_MAXHOST];
  if (getnameinfo(address, size, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0) return {};
  return address->sa_family == AF_INET6 ? absl::StrCat("[", host, "]:", port)
                                        : absl::StrCat(host, ":", port);
}

}  // namespace

absl::StatusOr<ListenAddress> ParseListenAddress(absl::string_view text,
                                                 std::optional<int> local_rank) {
  ListenAddress address;
  absl::string_view rest = text;
  if (absl::StartsWith(text, kUnixPrefix)) {
    // No client could dial another path; and a relative one would leave its socket behind if the
    // program changed its working directory.
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(text);
    if (!endpoint.ok()) return endpoint.status();
    address.unix_path = endpoint->address.substr(kUnixPrefix.size());
    return address;
  }
  const bool add_rank = absl::ConsumeSuffix(&rest, "+rank");
  const size_t colon = rest.rfind(':');
  if (colon == absl::string_view::npos) return Malformed(text, "no port");
  absl::string_view host = rest.substr(0, colon);
  const absl::string_view port = rest.substr(colon + 1);
  if (absl::ConsumePrefix(&host, "[")) {
    if (!absl::ConsumeSuffix(&host, "]")) return Malformed(text, "a bracket is missing");
    in6_addr ignored;
    const std::string literal(host.substr(0, host.find('%')));  // a scope may follow
    if (inet_pton(AF_INET6, literal.c_str(), &ignored) != 1)
      return Malformed(text, "not an IPv6 address");
  } else if (host.find(':') != absl::string_view::npos) {
    return Malformed(text, "an IPv6 address needs brackets");
  }
  if (host.empty()) return Malformed(text, "no host");
  if (host.find_first_of("/ \t\n[]@") != absl::string_view::npos || host.size() > 255) {
    return Malformed(text, "not a host name");
  }
  int number = 0;
  const bool digits =
      !port.empty() && port.find_first_not_of("0123456789") == absl::string_view::npos;
  if (!digits || port.size() > 9 || !absl::SimpleAtoi(port, &number)) {
    return Malformed(text, "the port is not a number");
  }
  if (number > kMaxPort)
    return Malformed(text, absl::StrCat("port ", number, " is over ", kMaxPort));
  if (add_rank && number != 0 && local_rank.has_value()) {
    if (*local_rank < 0 || *local_rank > kMaxPort - number) {
      return Malformed(text, absl::StrCat("port ", number, " plus local rank ", *local_rank,
                                          " is over ", kMaxPort));
    }
    number += *local_rank;
  }
  address.host = std::string(host);
  address.port = static_cast<uint16_t>(number);
  return address;
}

absl::StatusOr<std::vector<BindTarget>> ResolveListenAddress(const ListenAddress& address) {
  std::vector<BindTarget> targets;
  if (address.is_unix()) {
    targets.push_back({absl::StrCat(kUnixPrefix, address.unix_path), /*loopback=*/true});
    return targets;
  }
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = absl::StrCat(address.port);
  const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("host \"", Printable(address.host, 255),
                                               "\" is unknown: ", gai_strerror(error)));
  }
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
      if (entry->ai_family != family) continue;
      BindTarget target{Text(entry->ai_addr, entry->ai_addrlen, address.port),
                        IsLoopback(entry->ai_addr)};
      const bool known = std::any_of(targets.begin(), targets.end(), [&](const BindTarget& other) {
        return other.text == target.text;
      });
      if (!target.text.empty() && !known) targets.push_back(std::move(target));
    }
  }
  if (targets.empty()) {
    return absl::UnavailableError(
        absl::StrCat("host \"", Printable(address.host, 255), "\" has no IPv4 or IPv6 address"));
  }
  return targets;
}

}  // namespace jobscope
