// SPDX-License-Identifier: Apache-2.0
#include "common/net/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <optional>
#include <unordered_set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/text/foreign_text.h"

namespace jobscope {
namespace {

constexpr size_t kMaxAddressBytes = 1024;
constexpr size_t kMaxHostBytes = 253;  // longest DNS name
constexpr size_t kMaxStemBytes = 128;  // leaves room for suffixes within a file name's 255 bytes

bool IsHostCharacter(char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_'; }

absl::StatusOr<uint16_t> ParsePort(absl::string_view text, absl::string_view port) {
  uint32_t value = 0;
  bool digits = !port.empty() && port.size() <= 5;
  for (const char c : port) digits = digits && absl::ascii_isdigit(c);
  if (!digits || !absl::SimpleAtoi(port, &value) || value < 1 || value > 65535) {
    return BadAddress(text,
                      absl::StrCat("port '", Printable(port), "' is not a number from 1 to 65535"));
  }
  return static_cast<uint16_t>(value);
}

// Returns the canonical spelling of "::1" or "fe80::1%eth0"; nothing for other texts.
std::optional<std::string> CanonicalIpv6(absl::string_view host) {
  std::string address(host);
  std::string zone;
  if (const size_t percent = address.find('%'); percent != std::string::npos) {
    zone = address.substr(percent);
    address.resize(percent);
    if (zone.size() < 2 || zone.size() > 16) return std::nullopt;
    for (const char c : zone.substr(1)) {
      if (!IsHostCharacter(c)) return std::nullopt;
    }
  }
  // inet_pton reads a C string: an embedded NUL would hide the rest.
  if (address.find('\0') != std::string::npos) return std::nullopt;
  in6_addr binary{};
  if (inet_pton(AF_INET6, address.c_str(), &binary) != 1) return std::nullopt;
  char canonical[INET6_ADDRSTRLEN];
  if (inet_ntop(AF_INET6, &binary, canonical, sizeof canonical) == nullptr) return std::nullopt;
  return absl::StrCat(canonical, zone);
}

bool IsIpv4(const std::string& host) {
  in_addr binary{};
  return inet_pton(AF_INET, host.c_str(), &binary) == 1;
}

absl::StatusOr<Endpoint> ParseUnix(absl::string_view text, absl::string_view path) {
  // unix:/path and unix:///path are equivalent.
  if (absl::StartsWith(path, "///")) path.remove_prefix(2);
  if (!absl::StartsWith(path, "/") || absl::StartsWith(path, "//") || path.size() < 2) {
    return BadAddress(text, "a unix socket needs an absolute path, such as unix:/run/worker.sock");
  }
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return BadAddress(text, absl::StrCat("the path of a unix socket has at most ",
                                         sizeof(sockaddr_un::sun_path) - 1, " bytes"));
  }
  for (const char c : path) {
    if (!absl::ascii_isgraph(c) || c == '%') {
      return BadAddress(text, "the path may hold neither blanks, '%' nor unprintable characters");
    }
  }
  Endpoint endpoint;
  endpoint.address = absl::StrCat("unix:", path);
  endpoint.target = endpoint.address;
  endpoint.key = endpoint.address;
  return endpoint;
}

absl::StatusOr<Endpoint> ParseIpv6(absl::string_view text, absl::string_view rest) {
  const size_t close = rest.find(']');
  if (close == absl::string_view::npos) {
    return BadAddress(text, "the bracket is not closed; write [::1]:6009");
  }
  const std::optional<std::string> canonical = CanonicalIpv6(rest.substr(1, close - 1));
  if (!canonical.has_value()) {
    return BadAddress(
        text, absl::StrCat("'", Printable(rest.substr(1, close - 1)), "' is not an IPv6 address"));
  }
  if (rest.substr(close + 1, 1) != ":") {
    return BadAddress(text, "the port is missing; write [v6-address]:port");
  }
  const absl::StatusOr<uint16_t> port = ParsePort(text, rest.substr(close + 2));
  if (!port.ok()) return port.status();
  Endpoint endpoint;
  endpoint.host = *canonical;
  endpoint.port = *port;
  endpoint.address = absl::StrCat("[", *canonical, "]:", *port);
  // In a URI the '%' of a zone must be escaped.
  endpoint.target =
      absl::StrCat("ipv6:[", absl::StrReplaceAll(*canonical, {{"%", "%25"}}), "]:", *port);
  endpoint.key = endpoint.address;
  return endpoint;
}

}  // namespace

absl::Status BadAddress(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("address '", Printable(text), "': ", why));
}

absl::StatusOr<Endpoint> ParseEndpoint(absl::string_view text) {
  absl::string_view rest = text;
  absl::ConsumePrefix(&rest, "grpc://");
  if (rest.empty()) return BadAddress(text, "it is empty; write host:port");
  if (rest.size() > kMaxAddressBytes) {
    return BadAddress(text, absl::StrCat("longer than ", kMaxAddressBytes, " bytes"));
  }
  if (absl::ConsumePrefix(&rest, "unix:")) return ParseUnix(text, rest);
  if (absl::StrContains(rest, "://")) {
    return BadAddress(text, "unknown scheme; known are grpc://, dns:/// and unix:");
  }
  if (rest[0] == '[') return ParseIpv6(text, rest);

  const size_t colon = rest.find(':');
  if (colon == absl::string_view::npos)
    return BadAddress(text, "the port is missing; write host:port");
  if (rest.find(':', colon + 1) != absl::string_view::npos) {
    return BadAddress(text, "more than one ':'; an IPv6 address needs brackets: [v6-address]:port");
  }
  const absl::string_view host = rest.substr(0, colon);
  if (host.empty()) return BadAddress(text, "the host is missing; write host:port");
  if (host.size() > kMaxHostBytes) {
    return BadAddress(text, absl::StrCat("the host is longer than ", kMaxHostBytes, " bytes"));
  }
  for (const char c : host) {
    if (!IsHostCharacter(c)) {
      return BadAddress(text, absl::StrCat("'", Printable(absl::string_view(&c, 1)),
                                           "' cannot be part of a host name"));
    }
  }
  if (host[0] == '-') return BadAddress(text, "a host name does not begin with '-'");
  const absl::StatusOr<uint16_t> port = ParsePort(text, rest.substr(colon + 1));
  if (!port.ok()) return port.status();

  Endpoint endpoint;
  endpoint.host = std::string(host);
  endpoint.port = *port;
  endpoint.address = absl::StrCat(host, ":", *port);
  endpoint.target = absl::StrCat(IsIpv4(endpoint.host) ? "ipv4:" : "dns:///", endpoint.address);
  endpoint.key = absl::AsciiStrToLower(endpoint.address);
  return endpoint;
}

std::string FileStem(const Endpoint& endpoint) {
  std::string stem = endpoint.port != 0 ? absl::StrCat(endpoint.host, "_", endpoint.port)
                                        : absl::StrReplaceAll(endpoint.address, {{":/", "_"}});
  for (char& c : stem) {
    if (!IsHostCharacter(c)) c = '_';
  }
  if (stem.size() > kMaxStemBytes) stem.erase(0, stem.size() - kMaxStemBytes);
  // Avoids hidden files, names that look like options, and XProf's reserved word.
  if (stem[0] == '.' || stem[0] == '-' || stem == "ALL_HOSTS") stem[0] = '_';
  return stem;
}

std::vector<std::string> FileStems(const std::vector<Endpoint>& endpoints) {
  std::vector<std::string> stems;
  stems.reserve(endpoints.size());
  std::unordered_set<std::string> taken;
  for (const Endpoint& endpoint : endpoints) {
    const std::string base = FileStem(endpoint);
    std::string stem = base;
    for (int n = 2; !taken.insert(absl::AsciiStrToLower(stem)).second; ++n) {
      stem = absl::StrCat(base, "-", n);
    }
    stems.push_back(std::move(stem));
  }
  return stems;
}

}  // namespace jobscope
