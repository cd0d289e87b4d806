// SPDX-License-Identifier: Apache-2.0
#include "server/attach/listen_text.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>

#include "tests/temporary_directory.h"

namespace jobscope::attach {
namespace {

std::string Written(const char* listen, int local_rank) {
  char address[kMaxListenBytes + 1];
  return WriteAddress(listen, local_rank, address, sizeof(address)) ? address : "refused";
}

TEST(ListenTextTest, WithoutARankThereIsNothingToAdd) {
  EXPECT_EQ(Written("127.0.0.1:6009+rank", -1), "127.0.0.1:6009");
  EXPECT_EQ(Written("127.0.0.1:6009+rank", 3), "127.0.0.1:6009+rank");
  EXPECT_EQ(Written("127.0.0.1:6009", -1), "127.0.0.1:6009");
  EXPECT_EQ(Written("+rank", -1), "+rank");
  EXPECT_EQ(Written("unix:/tmp/x", -1), "unix:/tmp/x");
}

TEST(ListenTextTest, TooLong) {
  EXPECT_EQ(Written(std::string(1024, 'x').c_str(), 0), std::string(1024, 'x'));
  EXPECT_EQ(Written(std::string(1025, 'x').c_str(), 0), "refused");
}

// A port that somebody listens on, for as long as it lives.
class Listener {
 public:
  explicit Listener(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in6 v6 = {};
    sockaddr_in v4 = {};
    v6.sin6_family = AF_INET6;
    v6.sin6_addr = in6addr_loopback;
    v4.sin_family = AF_INET;
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_v6 = family == AF_INET6;
    const auto* address =
        is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
    const socklen_t size = is_v6 ? sizeof(v6) : sizeof(v4);
    const int on = 1;
    setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd_ < 0 || bind(fd_, address, size) != 0 || listen(fd_, 1) != 0) return;
    sockaddr_in6 bound = {};
    socklen_t bound_size = sizeof(bound);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&bound), &bound_size);
    port_ = ntohs(bound.sin6_port);  // at the same place in both
  }
  ~Listener() { Close(); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int port() const { return port_; }

 private:
  int fd_;
  int port_ = 0;
};

// Tries several ports: another program may get one as soon as it is free.
bool IsFreeAfterwards(int family, const std::string& host) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    Listener listener(family);
    const std::string address = host + std::to_string(listener.port());
    EXPECT_TRUE(IsTaken(address.c_str(), -1)) << address;
    listener.Close();
    if (!IsTaken(address.c_str(), -1)) return true;
  }
  return false;
}

TEST(ListenTextTest, TakenPort) {
  ASSERT_NE(Listener(AF_INET).port(), 0);
  EXPECT_TRUE(IsFreeAfterwards(AF_INET, "127.0.0.1:"));
}

TEST(ListenTextTest, TakenPortOfThisHost) {
  for (const int family : {AF_INET, AF_INET6}) {
    if (Listener(family).port() == 0) continue;  // no IPv6 here
    EXPECT_TRUE(IsFreeAfterwards(family, "localhost:"));
  }
}

TEST(ListenTextTest, TakenUnixSocket) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/socket";
  const std::string address = "unix:" + path;
  EXPECT_FALSE(IsTaken(address.c_str(), -1));
  sockaddr_un bound = {};
  bound.sun_family = AF_UNIX;
  path.copy(bound.sun_path, sizeof(bound.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&bound), sizeof(bound)), 0);
  ASSERT_EQ(listen(fd, 0), 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(IsTaken(address.c_str(), -1)) << i;  // full at last
  close(fd);
  EXPECT_FALSE(IsTaken(address.c_str(), -1)) << "the file is left";
}

TEST(ListenTextTest, TakenPortOfARank) {
  Listener listener(AF_INET);
  ASSERT_GT(listener.port(), 3);
  const std::string address = "127.0.0.1:" + std::to_string(listener.port() - 3) + "+rank";
  EXPECT_TRUE(IsTaken(address.c_str(), 3));
}

TEST(ListenTextTest, TakenPortOfVersionSix) {
  const Listener listener(AF_INET6);
  if (listener.port() == 0) GTEST_SKIP() << "no IPv6 here";
  const std::string address = "[::1]:" + std::to_string(listener.port());
  EXPECT_TRUE(IsTaken(address.c_str(), -1));
}

// Two processes look at the same time: neither is an obstacle to the other.
TEST(ListenTextTest, LookingIsNotListening) {
  Listener listener(AF_INET);
  const int port = listener.port();
  listener.Close();
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in bound = {};
  bound.sin_family = AF_INET;
  bound.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  bound.sin_port = htons(static_cast<uint16_t>(port));
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&bound), sizeof(bound)), 0);
  EXPECT_FALSE(IsTaken(("127.0.0.1:" + std::to_string(port)).c_str(), -1));
  close(fd);
}

TEST(ListenTextTest, WhatIsUnknownIsNotTaken) {
  const Listener listener(AF_INET);
  const std::string port = std::to_string(listener.port());
  for (const std::string& text :
       {std::string(), std::string(":"), "localhost" + port, "example.org:" + port,
        "localhost:" + port + "x", "localhost:" + std::string(2000, '1'), std::string("unix:"),
        "unix:" + std::string(2000, 'x'), "127.0.0.1:" + port + "x", "127.0.0.1:" + port + "+rankx",
        std::string("127.0.0.1:0"), std::string("127.0.0.1:99999"), std::string("127.0.0.1:-5"),
        "::1:" + port, "[" + port, std::string("unix:/tmp/x"),
        std::string(2000, '1') + ":" + port}) {
    EXPECT_FALSE(IsTaken(text.c_str(), 0)) << text;
  }
  EXPECT_FALSE(IsTaken("127.0.0.1:65535+rank", 1));
}

}  // namespace
}  // namespace jobscope::attach
