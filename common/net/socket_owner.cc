// SPDX-License-Identifier: Apache-2.0
#include "common/net/socket_owner.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "common/net/socket_table.h"

namespace jobscope {
namespace {

// One end of a TCP connection. IPv4 as ::ffff:a.b.c.d.
struct TcpEnd {
  std::array<uint32_t, 4> address = {};  // network byte order
  uint16_t port = 0;                     // likewise
  bool is_v4() const { return address[0] == 0 && address[1] == 0 && address[2] == htonl(0xffff); }
};

absl::StatusOr<TcpEnd> EndOf(const sockaddr_storage& address) {
  TcpEnd end;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    end.address = {0, 0, htonl(0xffff), v4.sin_addr.s_addr};
    end.port = v4.sin_port;
    return end;
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
    memcpy(end.address.data(), &v6.sin6_addr, sizeof(v6.sin6_addr));
    end.port = v6.sin6_port;
    return end;
  }
  return absl::InvalidArgumentError("not a TCP or Unix socket");
}

// ---- sock_diag ----

struct DiagRequest {
  nlmsghdr header;
  inet_diag_req_v2 request;
};

// The socket of one exact connection. A connection that does not exist is not
// distinguished from a kernel without tcp_diag.
std::optional<TcpSocket> AskNetlink(const TcpEnd& local, const TcpEnd& remote) {
  const int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_SOCK_DIAG);
  if (fd < 0) return std::nullopt;
  const absl::Cleanup close_fd = [fd] { close(fd); };
  DiagRequest message = {};
  message.header.nlmsg_len = sizeof(message);
  message.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  message.header.nlmsg_flags = NLM_F_REQUEST;
  inet_diag_req_v2& request = message.request;
  request.sdiag_protocol = IPPROTO_TCP;
  request.idiag_states = ~0U;
  request.id.idiag_sport = local.port;
  request.id.idiag_dport = remote.port;
  request.id.idiag_cookie[0] = request.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (local.is_v4() && remote.is_v4()) {
    request.sdiag_family = AF_INET;  // also finds IPv6 sockets that speak IPv4
    request.id.idiag_src[0] = local.address[3];
    request.id.idiag_dst[0] = remote.address[3];
  } else {
    request.sdiag_family = AF_INET6;
    memcpy(request.id.idiag_src, local.address.data(), sizeof(request.id.idiag_src));
    memcpy(request.id.idiag_dst, remote.address.data(), sizeof(request.id.idiag_dst));
  }
  if (send(fd, &message, sizeof(message), 0) != sizeof(message)) return std::nullopt;
  // The kernel has answered when send() returns.
  alignas(nlmsghdr) char answer[1024];
  const ssize_t size = recv(fd, answer, sizeof(answer), 0);
  constexpr size_t kWanted = NLMSG_HDRLEN + sizeof(inet_diag_msg);
  if (size < static_cast<ssize_t>(kWanted)) return std::nullopt;
  const auto* const header = reinterpret_cast<const nlmsghdr*>(answer);
  if (header->nlmsg_type != SOCK_DIAG_BY_FAMILY || header->nlmsg_len < kWanted) return std::nullopt;
  inet_diag_msg found;
  memcpy(&found, answer + NLMSG_HDRLEN, sizeof(found));
  // Without such a connection the kernel may answer with a listener on that port.
  if (found.id.idiag_dport != remote.port) return std::nullopt;
  return TcpSocket{found.idiag_state, found.idiag_uid, found.idiag_inode};
}

// ---- /proc ----

// "0100007F:1F90" or 32 digits: words of the address as the machine's own integers.
std::string ProcText(const TcpEnd& end, bool v6) {
  std::string text;
  for (size_t word = v6 ? 0 : 3; word < end.address.size(); ++word) {
    absl::StrAppendFormat(&text, "%08X", end.address[word]);
  }
  absl::StrAppendFormat(&text, ":%04X", ntohs(end.port));
  return text;
}

absl::StatusOr<TcpSocket> SearchProc(const TcpEnd& local, const TcpEnd& remote) {
  bool v4_readable = true;
  if (local.is_v4() && remote.is_v4()) {
    v4_readable = false;
    const auto found =
        SearchTable("/proc/net/tcp", ProcText(local, false), ProcText(remote, false), &v4_readable);
    if (found.has_value()) return *found;
  }
  // Also has the IPv6 sockets that speak IPv4. Absent where IPv6 is off.
  bool v6_readable = access("/proc/net/tcp6", F_OK) != 0;
  const auto found =
      SearchTable("/proc/net/tcp6", ProcText(local, true), ProcText(remote, true), &v6_readable);
  if (found.has_value()) return *found;
  if (!v4_readable || !v6_readable) {
    return absl::UnavailableError("/proc/net/tcp cannot be read, or is too long");
  }
  return absl::NotFoundError(
      "the connection's other end is not a socket of this network namespace");
}

// ---- users ----

absl::StatusOr<uid_t> Known(uid_t user) {
  if (!MayLackANumber(user, "/proc/self/uid_map", "/proc/sys/kernel/overflowuid")) return user;
  return absl::UnavailableError("the other end's user is of another user namespace");
}

}  // namespace

absl::StatusOr<uid_t> PeerUser(int fd, SocketTable table) {
  sockaddr_storage own = {};
  sockaddr_storage peer = {};
  socklen_t own_size = sizeof(own);
  socklen_t peer_size = sizeof(peer);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0) {
    return absl::InvalidArgumentError(strerror(errno));
  }
  if (own.ss_family == AF_UNIX) {
    ucred credentials = {};
    socklen_t size = sizeof(credentials);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 ||
        credentials.uid == static_cast<uid_t>(-1)) {
      return absl::InvalidArgumentError("not a connected socket");
    }
    return Known(credentials.uid);
  }
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
    return errno == ENOTCONN ? absl::NotFoundError("the connection has ended")
                             : absl::InvalidArgumentError(strerror(errno));
  }
  const auto here = EndOf(own);
  const auto there = EndOf(peer);
  if (!here.ok()) return here.status();
  if (!there.ok()) return there.status();
  std::optional<TcpSocket> found;
  if (table == SocketTable::kNetlinkOrProc) found = AskNetlink(*there, *here);
  if (!found.has_value()) {
    auto searched = SearchProc(*there, *here);
    if (!searched.ok()) return searched.status();
    found = *searched;
  }
  if (found->state != TCP_ESTABLISHED || found->inode == 0) {
    return absl::NotFoundError("the connection's other end is closed");
  }
  return Known(found->user);
}

}  // namespace jobscope
