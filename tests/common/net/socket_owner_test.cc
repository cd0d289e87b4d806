// SPDX-License-Identifier: Apache-2.0
//
// The user at the other end of a connection: real sockets, and a process of another user.
#include "common/net/socket_owner.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "common/net/socket_table.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

constexpr uid_t kAnother = 65533;  // not 65534, which stands for users without a number

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) = delete;
  ~Socket() { Close(); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  int fd() const { return fd_; }

 private:
  int fd_;
};

struct Address {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Address Tcp(int family, const char* host, uint16_t port) {
  Address address;
  if (family == AF_INET) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    inet_pton(AF_INET, host, &v4.sin_addr);
    address.size = sizeof(v4);
  } else {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    inet_pton(AF_INET6, host, &v6.sin6_addr);
    address.size = sizeof(v6);
  }
  return address;
}

Address Unix(const std::string& path) {
  Address address;
  auto& unix_address = reinterpret_cast<sockaddr_un&>(address.storage);
  unix_address.sun_family = AF_UNIX;
  strncpy(unix_address.sun_path, path.c_str(), sizeof(unix_address.sun_path) - 1);
  address.size = sizeof(unix_address);
  return address;
}

Socket Listen(const Address& address) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(socket.fd(), address.get(), address.size), 0) << strerror(errno);
  EXPECT_EQ(listen(socket.fd(), 8), 0);
  return socket;
}

uint16_t PortOf(const Socket& socket) {
  sockaddr_in6 address = {};
  socklen_t size = sizeof(address);
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin6_port);  // at the same place in both families
}

Socket Connect(const Address& address) {
  Socket socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(socket.fd(), address.get(), address.size), 0) << strerror(errno);
  return socket;
}

Socket Accept(const Socket& listener) {
  return Socket(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
}

struct Case {
  const char* name;
  int listen_family;
  const char* listen_host;
  int connect_family;
  const char* connect_host;
  SocketTable table;
};

bool HasAddress(int family, const char* host) {
  const Socket probe(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Address address = Tcp(family, host, 0);
  return bind(probe.fd(), address.get(), address.size) == 0;
}

class SocketOwnerTest : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case& at = GetParam();
    for (const auto& [family, host] : {std::pair(at.listen_family, at.listen_host),
                                       std::pair(at.connect_family, at.connect_host)}) {
      if (family == AF_INET6 && !HasAddress(family, host)) GTEST_SKIP() << "no " << host << " here";
    }
  }
};

TEST_P(SocketOwnerTest, BothEndsAreOfThisUser) {
  const Case& at = GetParam();
  const Socket listener = Listen(Tcp(at.listen_family, at.listen_host, 0));
  const Socket caller = Connect(Tcp(at.connect_family, at.connect_host, PortOf(listener)));
  const Socket accepted = Accept(listener);
  const auto of_caller = PeerUser(accepted.fd(), at.table);
  ASSERT_TRUE(of_caller.ok()) << of_caller.status();
  EXPECT_EQ(*of_caller, geteuid());
  const auto of_listener = PeerUser(caller.fd(), at.table);
  ASSERT_TRUE(of_listener.ok()) << of_listener.status();
  EXPECT_EQ(*of_listener, geteuid());
}

// The kernel says "user 0" of a socket that nobody holds any more.
TEST_P(SocketOwnerTest, AClosedEndIsNobodys) {
  const Case& at = GetParam();
  const Socket listener = Listen(Tcp(at.listen_family, at.listen_host, 0));
  Socket caller = Connect(Tcp(at.connect_family, at.connect_host, PortOf(listener)));
  const Socket accepted = Accept(listener);
  ASSERT_EQ(write(caller.fd(), "x", 1), 1);
  caller.Close();
  EXPECT_EQ(PeerUser(accepted.fd(), at.table).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(SocketOwnerTest, AnotherUserIsReported) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Case& at = GetParam();
  const Socket listener = Listen(Tcp(at.listen_family, at.listen_host, 0));
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(kAnother, kAnother, kAnother) != 0) _exit(1);
    const Socket caller = Connect(Tcp(at.connect_family, at.connect_host, PortOf(listener)));
    char byte = 0;
    close(done[1]);
    (void)!read(done[0], &byte, 1);  // until the test has looked
    _exit(0);
  }
  const Socket accepted = Accept(listener);
  const auto user = PeerUser(accepted.fd(), at.table);
  close(done[0]);
  close(done[1]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_EQ(*user, kAnother);
}

INSTANTIATE_TEST_SUITE_P(
    Families, SocketOwnerTest,
    ::testing::Values(
        Case{"V4", AF_INET, "127.0.0.1", AF_INET, "127.0.0.1", SocketTable::kNetlinkOrProc},
        Case{"V4FromV6", AF_INET, "127.0.0.1", AF_INET6, "::ffff:127.0.0.1",
             SocketTable::kNetlinkOrProc},
        Case{"V6", AF_INET6, "::1", AF_INET6, "::1", SocketTable::kNetlinkOrProc},
        Case{"Wildcard", AF_INET6, "::", AF_INET, "127.0.0.1", SocketTable::kNetlinkOrProc},
        Case{"V4Proc", AF_INET, "127.0.0.1", AF_INET, "127.0.0.1", SocketTable::kProc},
        Case{"V4FromV6Proc", AF_INET, "127.0.0.1", AF_INET6, "::ffff:127.0.0.1",
             SocketTable::kProc},
        Case{"V6Proc", AF_INET6, "::1", AF_INET6, "::1", SocketTable::kProc},
        Case{"WildcardProc", AF_INET6, "::", AF_INET, "127.0.0.1", SocketTable::kProc}),
    [](const ::testing::TestParamInfo<Case>& info) { return info.param.name; });

TEST(UnixSocketOwnerTest, BothEndsAreOfThisUser) {
  const std::string path = ::testing::TempDir() + "/socket_owner_" + std::to_string(getpid());
  const Socket listener = Listen(Unix(path));
  const Socket caller = Connect(Unix(path));
  const Socket accepted = Accept(listener);
  unlink(path.c_str());
  EXPECT_EQ(PeerUser(accepted.fd()).value_or(-1), geteuid());
  EXPECT_EQ(PeerUser(caller.fd()).value_or(-1), geteuid());
}

// The number that the kernel reports for users without one must not pass for the user who has it.
TEST(SocketOwner, ANumberMayStandForUsersWithoutOne) {
  const TemporaryDirectory folder;
  const std::string of_the_host = folder.Write("all", "         0          0 4294967295\n");
  const std::string of_a_container = folder.Write("some", "         0     100000      65536\n");
  const std::string absent = folder.path() + "/absent";
  const auto may_lack = [](uint32_t user, const std::string& uid_map, const std::string& overflow) {
    return MayLackANumber(user, uid_map.c_str(), overflow.c_str());
  };
  const std::string another = folder.Write("another", "99\n");
  EXPECT_TRUE(may_lack(99, of_a_container, another));
  EXPECT_TRUE(may_lack(99, absent, another));
  EXPECT_FALSE(may_lack(99, of_the_host, another));
  EXPECT_FALSE(may_lack(1000, of_a_container, another));
  for (const char* junk : {"65534\n", "", "\n", "nobody\n", "-1\n", "4294967296\n"}) {
    const std::string usual = folder.Write("usual", junk);
    EXPECT_TRUE(may_lack(65534, of_a_container, usual)) << junk;
    EXPECT_FALSE(may_lack(1000, of_a_container, usual)) << junk;
  }
  EXPECT_TRUE(may_lack(65534, of_a_container, absent));
}

TEST(SocketOwner, WhatIsNoConnectionIsRefused) {
  EXPECT_EQ(PeerUser(-1).status().code(), absl::StatusCode::kInvalidArgument);
  const Socket listener = Listen(Tcp(AF_INET, "127.0.0.1", 0));
  EXPECT_EQ(PeerUser(listener.fd()).status().code(), absl::StatusCode::kNotFound);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(PeerUser(ends[0]).status().code(), absl::StatusCode::kInvalidArgument);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace jobscope
