// SPDX-License-Identifier: Apache-2.0
#include "server/listen/listen_address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/net/endpoint.h"
#include "server/listen/listen_socket.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

TEST(ParseListenAddress, TakesEveryForm) {
  struct {
    const char* text;
    const char* host;
    int port;
    const char* path;
  } const cases[] = {
      {"127.0.0.1:6009", "127.0.0.1", 6009, ""},
      {"localhost:0", "localhost", 0, ""},
      {"[::1]:65535", "::1", 65535, ""},
      {"[fe80::1%lo]:1", "fe80::1%lo", 1, ""},
      {"0.0.0.0:6009", "0.0.0.0", 6009, ""},
      {"unix:/run/worker-1.sock", "", 0, "/run/worker-1.sock"},
      {"unix:///run/worker.sock", "", 0, "/run/worker.sock"},
      {"node-1.example:06009", "node-1.example", 6009, ""},
      {"127.0.0.1:6009+rank", "127.0.0.1", 6012, ""},
      {"127.0.0.1:0+rank", "127.0.0.1", 0, ""},
  };
  for (const auto& good : cases) {
    const auto address = ParseListenAddress(good.text, 3);
    ASSERT_TRUE(address.ok()) << good.text << ": " << address.status();
    EXPECT_EQ(address->host, good.host) << good.text;
    EXPECT_EQ(address->port, good.port) << good.text;
    EXPECT_EQ(address->unix_path, good.path) << good.text;
  }
}

TEST(ParseListenAddress, RefusesTheRestWithTheReason) {
  struct {
    std::string text;
    const char* reason;
  } const cases[] = {
      {"", "no port"},
      {"127.0.0.1", "no port"},
      {":6009", "no host"},
      {"127.0.0.1:", "not a number"},
      {"127.0.0.1:x", "not a number"},
      {"127.0.0.1:-1", "not a number"},
      {"127.0.0.1:+1", "not a number"},
      {"127.0.0.1: 1", "not a number"},
      {"127.0.0.1:70000", "70000 is over 65535"},
      {"127.0.0.1:99999999999999999999", "not a number"},
      {"127.0.0.1:65535+rank", "plus local rank 3 is over 65535"},
      {"::1:6009", "needs brackets"},
      {"[::1:6009", "bracket"},
      {"[::1]", "bracket"},
      {"[]:1", "not an IPv6"},
      {"[node]:1", "not an IPv6"},
      {"unix:", "absolute path"},
      {"unix:relative", "absolute path"},
      {"unix:/" + std::string(107, 'x'), "at most 107"},
      {"unix:/run/a b.sock", "neither blanks"},
      {"unix:/run/50%", "'%'"},
      {std::string("unix:/a\0b", 9), "unprintable"},
      {"a/b:1", "not a host name"},
      {"a b:1", "not a host name"},
      {"grpc://a:1", "needs brackets"},
      {std::string(256, 'a') + ":1", "not a host name"},
      {std::string(1 << 20, ':'), "needs brackets"},
  };
  for (const auto& bad : cases) {
    const auto address = ParseListenAddress(bad.text, 3);
    ASSERT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument)
        << bad.text.substr(0, 40);
    EXPECT_THAT(std::string(address.status().message()), HasSubstr(bad.reason))
        << bad.text.substr(0, 40);
    EXPECT_LT(address.status().message().size(), 600u);
  }
  // One setting serves a program that is run by itself, too.
  const auto no_rank = ParseListenAddress("127.0.0.1:6009+rank", std::nullopt);
  ASSERT_TRUE(no_rank.ok());
  EXPECT_EQ(no_rank->port, 6009);
}

// A client must be able to dial what a worker listens on.
TEST(ParseListenAddress, TakesTheUnixPathsThatClientsDial) {
  std::vector<std::string> paths = {"",  "/",   "//x", "///x", "////x",
                                    "x", "./x", "/.",  "/../", "/" + std::string(106, 'x')};
  for (int byte = 0; byte < 256; ++byte) {
    paths.push_back(absl::StrCat("/a", std::string(1, static_cast<char>(byte)), "b"));
  }
  for (const std::string& path : paths) {
    const std::string text = "unix:" + path;
    const auto address = ParseListenAddress(text, std::nullopt);
    const auto endpoint = ParseEndpoint(text);
    EXPECT_EQ(address.status().code(), endpoint.status().code()) << absl::CHexEscape(text);
    if (!address.ok() || !endpoint.ok()) continue;
    EXPECT_EQ("unix:" + address->unix_path, endpoint->address);
  }
}

std::vector<BindTarget> Resolve(const char* text) {
  const auto targets = ResolveListenAddress(*ParseListenAddress(text, 0));
  return targets.ok() ? *targets : std::vector<BindTarget>();
}

TEST(ResolveListenAddress, KnowsLoopback) {
  struct {
    const char* text;
    bool loopback;
  } const cases[] = {
      {"127.0.0.1:1", true},
      {"127.8.9.1:1", true},
      {"[::1]:1", true},
      {"[::ffff:127.0.0.1]:1", true},
      {"unix:/x", true},
      {"0.0.0.0:1", false},
      {"[::]:1", false},
      {"10.0.0.1:1", false},
      {"[fd00::1]:1", false},
      {"128.0.0.1:1", false},
      {"[::ffff:10.0.0.1]:1", false},
  };
  for (const auto& known : cases) {
    const auto targets = Resolve(known.text);
    ASSERT_EQ(targets.size(), 1u) << known.text;
    EXPECT_EQ(targets[0].loopback, known.loopback) << known.text;
  }
}

TEST(ResolveListenAddress, ResolvesNames) {
  const auto targets = Resolve("localhost:6009");
  ASSERT_FALSE(targets.empty());
  EXPECT_EQ(targets[0].text, "127.0.0.1:6009");
  for (const BindTarget& target : targets) EXPECT_TRUE(target.loopback) << target.text;
  const auto unknown = ResolveListenAddress(*ParseListenAddress("no-such-host.invalid:1", 0));
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("no-such-host.invalid"));
}

absl::StatusOr<ListenSocket> Open(const std::string& text) {
  return ListenSocket::Open({text, true}, {});
}

// A listening socket of the kernel's choice.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 1), 0);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~Listener() { close(fd_); }
  int port() const { return port_; }

 private:
  const int fd_;
  int port_ = 0;
};

TEST(ListenSocket, TellsATakenPort) {
  const Listener listener;
  const absl::Status status = Open(absl::StrCat("127.0.0.1:", listener.port())).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists) << status;
  for (const char* wildcard : {"0.0.0.0:", "[::]:"}) {
    EXPECT_EQ(Open(absl::StrCat(wildcard, listener.port())).status().code(),
              absl::StatusCode::kAlreadyExists);
  }
}

TEST(ListenSocket, TellsAForeignAddress) {
  EXPECT_EQ(Open("192.0.2.1:6009").status().code(), absl::StatusCode::kUnavailable);
}

class UnixSocket : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/listenXXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    path_ = directory_ + "/s";
  }
  void TearDown() override {
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }
  // Makes a socket file; the descriptor listens on it.
  int Listen() const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd, 1), 0);
    return fd;
  }
  bool Exists() const { return access(path_.c_str(), F_OK) == 0; }

  std::string directory_, path_;
};

TEST_F(UnixSocket, AStaleFileIsRemoved) {
  close(Listen());
  ASSERT_TRUE(Exists());
  {
    const auto socket = Open("unix:" + path_);
    EXPECT_TRUE(socket.ok()) << socket.status();
    EXPECT_TRUE(Exists());
  }
  EXPECT_FALSE(Exists());
}

TEST_F(UnixSocket, AServedOneIsLeftAlone) {
  const int fd = Listen();
  EXPECT_EQ(Open("unix:" + path_).status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Exists());
  close(fd);
}

TEST_F(UnixSocket, AnotherFileIsLeftAlone) {
  std::ofstream(path_) << "precious";
  EXPECT_EQ(Open("unix:" + path_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(Exists());
}

TEST_F(UnixSocket, AMissingDirectoryIsNamed) {
  const absl::Status status = Open(absl::StrCat("unix:", directory_, "/no/s")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("/no/s: no such directory; create it, or choose another path"));
}

TEST(ListenSocket, PortZeroIsTheKernelsChoice) {
  for (const std::string address : {"127.0.0.1:0", "0.0.0.0:0"}) {
    const auto socket = Open(address);
    ASSERT_TRUE(socket.ok()) << socket.status();
    const std::string& bound = socket->target().text;
    EXPECT_NE(bound, address);
    EXPECT_EQ(bound.substr(0, bound.rfind(':')), address.substr(0, address.rfind(':')));
    EXPECT_TRUE(socket->target().loopback);
    EXPECT_EQ(Open(bound).status().code(), absl::StatusCode::kAlreadyExists);
  }
  EXPECT_EQ(Open("192.0.2.1:0").status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace jobscope
