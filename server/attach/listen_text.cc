// SPDX-License-Identifier: Apache-2.0
#include "server/attach/listen_text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace jobscope::attach {
namespace {

constexpr char kRankSuffix[] = "+rank";
constexpr size_t kRankSuffixBytes = sizeof(kRankSuffix) - 1;
constexpr char kUnixPrefix[] = "unix:";
constexpr size_t kUnixPrefixBytes = sizeof(kUnixPrefix) - 1;
constexpr char kLocalHost[] = "localhost:";
constexpr size_t kLocalHostBytes = sizeof(kLocalHost) - 1;
constexpr long kMaxPort = 65535;

bool EndsInRank(const char* text, size_t length) {
  return length > kRankSuffixBytes &&
         memcmp(text + length - kRankSuffixBytes, kRankSuffix, kRankSuffixBytes) == 0;
}

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
};

// Returns the size of `address`, or 0 if it is not numeric.
socklen_t Parse(const char* text, int local_rank, SocketAddress* address) {
  const size_t length = strlen(text);
  const char* colon = strrchr(text, ':');
  if (colon == nullptr || colon[1] < '0' || colon[1] > '9') return 0;
  char* end = nullptr;
  long port = strtol(colon + 1, &end, 10);
  if (port < 1 || port > kMaxPort) return 0;
  if (EndsInRank(text, length)) {
    if (end != text + length - kRankSuffixBytes) return 0;
    port += local_rank > 0 ? local_rank : 0;
  } else if (*end != '\0') {
    return 0;
  }
  if (port > kMaxPort) return 0;

  char host[INET6_ADDRSTRLEN + 2] = "";
  const size_t host_bytes = static_cast<size_t>(colon - text);
  if (host_bytes >= sizeof(host)) return 0;
  memcpy(host, text, host_bytes);
  memset(address, 0, sizeof(*address));
  if (host[0] == '[' && host_bytes > 2 && host[host_bytes - 1] == ']') {
    host[host_bytes - 1] = '\0';
    if (inet_pton(AF_INET6, host + 1, &address->v6.sin6_addr) != 1) return 0;
    address->v6.sin6_family = AF_INET6;
    address->v6.sin6_port = htons(static_cast<uint16_t>(port));
    return sizeof(address->v6);
  }
  if (inet_pton(AF_INET, host, &address->v4.sin_addr) != 1) return 0;
  address->v4.sin_family = AF_INET;
  address->v4.sin_port = htons(static_cast<uint16_t>(port));
  return sizeof(address->v4);
}

bool IsNumericTaken(const char* address, int local_rank) {
  SocketAddress numeric;
  const socklen_t bytes = Parse(address, local_rank, &numeric);
  if (bytes == 0) return false;
  const int fd = socket(numeric.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  // With it on both sides, a bind fails only if another socket listens.
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  const bool taken = bind(fd, &numeric.any, bytes) != 0 && errno == EADDRINUSE;
  close(fd);
  return taken;
}

// The server replaces the file of a socket on which nobody listens, so a bind shows nothing.
bool IsUnixTaken(const char* path) {
  sockaddr_un address;
  memset(&address, 0, sizeof(address));
  address.sun_family = AF_UNIX;
  const size_t length = strlen(path);
  if (length == 0 || length >= sizeof(address.sun_path)) return false;
  memcpy(address.sun_path, path, length);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool taken =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
      errno == EAGAIN;  // its queue is full
  close(fd);
  return taken;
}

}  // namespace

bool WriteAddress(const char* listen, int local_rank, char* address, size_t size) {
  size_t length = strnlen(listen, kMaxListenBytes + 1);
  if (length > kMaxListenBytes) return false;
  if (local_rank < 0 && EndsInRank(listen, length)) length -= kRankSuffixBytes;
  if (length >= size) return false;
  memcpy(address, listen, length);
  address[length] = '\0';
  return true;
}

bool IsTaken(const char* address, int local_rank) {
  if (strncmp(address, kUnixPrefix, kUnixPrefixBytes) == 0) {
    return IsUnixTaken(address + kUnixPrefixBytes);
  }
  if (strncmp(address, kLocalHost, kLocalHostBytes) != 0) {
    return IsNumericTaken(address, local_rank);
  }
  // The server listens on all addresses of the name, or on none.
  constexpr const char* kHosts[] = {"127.0.0.1:", "[::1]:"};
  for (const char* host : kHosts) {
    char numeric[64] = "";
    if (strlen(host) + strlen(address + kLocalHostBytes) >= sizeof(numeric)) return false;
    strcat(strcpy(numeric, host), address + kLocalHostBytes);
    if (IsNumericTaken(numeric, local_rank)) return true;
  }
  return false;
}

}  // namespace jobscope::attach
