// SPDX-License-Identifier: Apache-2.0
#include "server/guard/fork_guard.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/process/fork_pause.h"
#include "tests/has_ipv6.h"

namespace jobscope {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) != -1; }

// A descriptor that is closed with its test.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) { EXPECT_GE(fd, 0) << strerror(errno); }
  Fd(Fd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// Runs `body` in a forked child; its result is what the child answers (0..255), -1 if it died
// otherwise.
int InChild(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(20);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Bits of the descriptors that are open, the first is 1.
int OpenBits(const std::vector<int>& fds) {
  int bits = 0;
  for (size_t i = 0; i < fds.size(); ++i) bits |= IsOpen(fds[i]) ? 1 << i : 0;
  return bits;
}

// Returns a socket that is bound to `port` (0: any), and listens if it is of a stream; -1: in use.
int TryBind(const char* host, uint16_t port, int type) {
  const int family = strchr(host, ':') == nullptr ? AF_INET : AF_INET6;
  const int fd = socket(family, type, 0);
  // A port that another address has may be that of a connection that has ended.
  const int on = 1;
  EXPECT_EQ(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
  sockaddr_in v4 = {};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  sockaddr_in6 v6 = {};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  const bool is_v6 = family == AF_INET6;
  EXPECT_EQ(
      is_v6 ? inet_pton(AF_INET6, host, &v6.sin6_addr) : inet_pton(AF_INET, host, &v4.sin_addr), 1);
  const auto* address =
      is_v6 ? reinterpret_cast<const sockaddr*>(&v6) : reinterpret_cast<const sockaddr*>(&v4);
  if (bind(fd, address, is_v6 ? sizeof(v6) : sizeof(v4)) == 0 &&
      (type != SOCK_STREAM || listen(fd, 8) == 0)) {
    return fd;
  }
  EXPECT_EQ(errno, EADDRINUSE) << strerror(errno);
  close(fd);
  return -1;
}

uint16_t PortOf(const Fd& fd) {
  sockaddr_in6 address = {};
  socklen_t length = sizeof(address);
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  return ntohs(address.sin6_port);  // at the same place in an IPv4 address
}

Fd BoundInet(const char* host, uint16_t* port) {
  Fd fd(TryBind(host, 0, SOCK_STREAM));
  if (port != nullptr) *port = PortOf(fd);
  return fd;
}

struct Place {
  const char* host;
  int type;
};

// Returns sockets at one port of several places. The port that is free at the first of them may be
// another program's at the next one; then tries others.
std::vector<Fd> BoundTogether(const std::vector<Place>& places, uint16_t* port) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::vector<Fd> bound;
    for (const Place& place : places) {
      const int fd = TryBind(place.host, bound.empty() ? 0 : PortOf(bound[0]), place.type);
      if (fd < 0) break;
      bound.emplace_back(fd);
    }
    if (bound.size() < places.size()) continue;
    *port = PortOf(bound[0]);
    return bound;
  }
  ADD_FAILURE() << "no port is free at all places";
  return {};
}

Fd BoundDualStack(uint16_t* port) {
  Fd fd(socket(AF_INET6, SOCK_STREAM, 0));
  const int v6_only = 0;
  EXPECT_EQ(setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only)), 0);
  sockaddr_in6 address = {};
  address.sin6_family = AF_INET6;
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0)
      << strerror(errno);
  EXPECT_EQ(listen(fd.get(), 8), 0);
  *port = PortOf(fd);
  return fd;
}

Fd ConnectedInet(uint16_t port) {
  Fd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

Fd Accepted(const Fd& listener) { return Fd(accept(listener.get(), nullptr, nullptr)); }

class ForkGuardTest : public testing::Test {
 protected:
  void SetUp() override { InstallForkGuard(); }
};

TEST_F(ForkGuardTest, ChildLosesListenerAndAcceptedConnectionsOnly) {
  uint16_t port = 0;
  // The last is another server of the application, on the same port of another address.
  const std::vector<Fd> bound = BoundTogether(
      {{"127.0.0.1", SOCK_STREAM}, {"127.0.0.1", SOCK_DGRAM}, {"127.0.0.2", SOCK_STREAM}}, &port);
  ASSERT_EQ(bound.size(), 3);
  const Fd& listener = bound[0];
  const Fd& datagram = bound[1];
  const Fd& neighbour = bound[2];
  const Fd client = ConnectedInet(port);
  const Fd accepted = Accepted(listener);
  const Fd other = BoundInet("127.0.0.1", nullptr);
  const ListenerGuard guard("127.0.0.1:" + std::to_string(port));
  ASSERT_TRUE(guard.held());
  const std::vector<int> fds = {listener.get(), accepted.get(), client.get(),
                                other.get(),    datagram.get(), neighbour.get()};
  EXPECT_EQ(InChild([&] { return OpenBits(fds); }), 0b111100);
  EXPECT_EQ(OpenBits(fds), 0b111111);
}

TEST_F(ForkGuardTest, ParentStillAcceptsAfterTheChildHasLeft) {
  uint16_t port = 0;
  const Fd listener = BoundInet("127.0.0.1", &port);
  const ListenerGuard guard("127.0.0.1:" + std::to_string(port));
  ASSERT_TRUE(guard.held());
  EXPECT_EQ(InChild([] { return 7; }), 7);
  const Fd client = ConnectedInet(port);
  const Fd accepted = Accepted(listener);
  EXPECT_TRUE(IsOpen(accepted.get()));
}

TEST_F(ForkGuardTest, WildcardListener) {
  uint16_t port = 0;
  const Fd listener = BoundInet("0.0.0.0", &port);
  const Fd client = ConnectedInet(port);
  const Fd accepted = Accepted(listener);
  const ListenerGuard guard("0.0.0.0:" + std::to_string(port));
  ASSERT_TRUE(guard.held());
  EXPECT_EQ(InChild([&] {
              return OpenBits({listener.get(), accepted.get(), client.get()});
            }),
            0b100);
}

TEST_F(ForkGuardTest, HostThatIsNotNumericStandsForEveryAddress) {
  uint16_t port = 0;
  const Fd listener = BoundInet("127.0.0.1", &port);
  const ListenerGuard guard("localhost:" + std::to_string(port));
  ASSERT_TRUE(guard.held());
  EXPECT_EQ(InChild([&] { return OpenBits({listener.get()}); }), 0);
}

TEST_F(ForkGuardTest, DualStackListenerAcceptsMappedAddresses) {
  if (!HasIpv6()) GTEST_SKIP() << "no IPv6 here";
  uint16_t port = 0;
  const Fd listener = BoundDualStack(&port);
  const Fd client = ConnectedInet(port);
  const Fd accepted = Accepted(listener);
  const ListenerGuard guard("[::]:" + std::to_string(port));
  ASSERT_TRUE(guard.held());
  EXPECT_EQ(InChild([&] {
              return OpenBits({listener.get(), accepted.get(), client.get()});
            }),
            0b100);
}

TEST_F(ForkGuardTest, Ipv6ListenerOfOneAddress) {
  if (!HasIpv6()) GTEST_SKIP() << "no IPv6 here";
  uint16_t port = 0;
  const std::vector<Fd> bound =
      BoundTogether({{"::1", SOCK_STREAM}, {"127.0.0.1", SOCK_STREAM}}, &port);
  ASSERT_EQ(bound.size(), 2);
  const ListenerGuard guard("[::1]:" + std::to_string(port));
  ASSERT_TRUE(guard.held());
  EXPECT_EQ(InChild([&] { return OpenBits({bound[0].get(), bound[1].get()}); }), 0b10);
}

TEST_F(ForkGuardTest, UnixSocket) {
  char folder[] = "/tmp/jobscope-fork-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const auto listen_on = [](const std::string& path) {
    Fd fd(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd.get(), 8), 0);
    return fd;
  };
  const std::string path = std::string(folder) + "/ours";
  const Fd listener = listen_on(path);
  const Fd other = listen_on(path + "-not");
  const Fd client(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  const Fd accepted = Accepted(listener);
  const ListenerGuard guard("unix:" + path);
  ASSERT_TRUE(guard.held());
  EXPECT_EQ(InChild([&] {
              return OpenBits({listener.get(), accepted.get(), other.get(), client.get()});
            }),
            0b1100);
  unlink(path.c_str());
  unlink((path + "-not").c_str());
  rmdir(folder);
}

TEST_F(ForkGuardTest, WithoutProcDescriptorsAreProbed) {
  uint16_t port = 0;
  const Fd listener = BoundInet("127.0.0.1", &port);
  const Fd other = BoundInet("127.0.0.1", nullptr);
  const ListenerGuard guard("127.0.0.1:" + std::to_string(port));
  ASSERT_TRUE(guard.held());
  char folder[] = "/tmp/jobscope-fork-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  constexpr int kNoChroot = 99;
  // A raw clone runs no fork handler, so this child is one that never forked from the library's
  // point of view.
  const pid_t pid =
      static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) {
    alarm(20);
    if (chroot(folder) != 0 && (unshare(CLONE_NEWUSER) != 0 || chroot(folder) != 0)) {
      _exit(kNoChroot);
    }
    _exit(InChild([&] { return OpenBits({listener.get(), other.get()}); }));
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  rmdir(folder);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoChroot) GTEST_SKIP() << "not allowed to change the root";
  EXPECT_EQ(WEXITSTATUS(status), 0b10);
}

TEST_F(ForkGuardTest, ChildKnowsThatItIsOneAndSoDoesItsChild) {
  EXPECT_FALSE(InForkedChild());
  EXPECT_EQ(InChild([] { return InForkedChild() ? 1 : 0; }), 1);
  EXPECT_EQ(InChild([] { return InChild([] { return InForkedChild() ? 1 : 0; }); }), 1);
  EXPECT_FALSE(InForkedChild());
}

TEST_F(ForkGuardTest, ChildOfARawCloneKnowsItToo) {
  const pid_t pid =
      static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (pid == 0) _exit(InForkedChild() ? 1 : 0);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

TEST_F(ForkGuardTest, UnguardedListenersStay) {
  uint16_t port = 0;
  const Fd listener = BoundInet("127.0.0.1", &port);
  { const ListenerGuard guard("127.0.0.1:" + std::to_string(port)); }
  EXPECT_EQ(InChild([&] { return OpenBits({listener.get()}); }), 1);
}

// As of a server that ends late, when another one runs.
TEST_F(ForkGuardTest, EachGuardEndsForItsListenerOnly) {
  uint16_t port = 0;
  const Fd first = BoundInet("127.0.0.1", &port);
  std::optional<ListenerGuard> first_guard("127.0.0.1:" + std::to_string(port));
  const Fd second = BoundInet("127.0.0.1", &port);
  const ListenerGuard second_guard("127.0.0.1:" + std::to_string(port));
  const std::vector<int> fds = {first.get(), second.get()};
  EXPECT_EQ(InChild([&] { return OpenBits(fds); }), 0b00);
  first_guard.reset();
  EXPECT_EQ(InChild([&] { return OpenBits(fds); }), 0b01);
  const Fd third = BoundInet("127.0.0.1", &port);
  const ListenerGuard third_guard("127.0.0.1:" + std::to_string(port));
  EXPECT_EQ(InChild([&] { return OpenBits({first.get(), second.get(), third.get()}); }), 0b001);
}

TEST_F(ForkGuardTest, ErrnoSurvivesTheHandler) {
  uint16_t port = 0;
  const Fd listener = BoundInet("127.0.0.1", &port);
  const ListenerGuard guard("127.0.0.1:" + std::to_string(port));
  ASSERT_TRUE(guard.held());
  errno = 0;
  EXPECT_EQ(InChild([] { return errno == EDOM ? 1 : 0; }), 0);
  errno = EDOM;
  const pid_t pid = fork();
  if (pid == 0) _exit(errno == EDOM ? 1 : 0);
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

// A socket that is bound only after a child could have been forked with it. What is seen counts
// where the machine did not stand still for as long as a fork waits at most.
TEST_F(ForkGuardTest, AForkWaitsForASocketThatHasNoAddressYet) {
  constexpr auto kLookForChild = std::chrono::milliseconds(20);
  constexpr auto kShorterThanTheWait = std::chrono::milliseconds(1900);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  bool seen = false;
  while (!seen && std::chrono::steady_clock::now() < deadline) {
    int lives[2] = {-1, -1};
    ASSERT_EQ(pipe(lives), 0);
    const Fd child_lives(lives[0]);
    const Fd child(lives[1]);
    std::optional<ForkPause> pause(std::in_place);
    ASSERT_TRUE(pause->held());
    const Fd listener(socket(AF_INET, SOCK_STREAM, 0));
    std::atomic<bool> forks{false};
    const auto begin = std::chrono::steady_clock::now();
    int open = -1;
    std::thread other([&] {
      forks.store(true);
      open = InChild([&] {
        const ssize_t written = write(child.get(), "", 1);
        return written == 1 ? OpenBits({listener.get()}) : 2;
      });
    });
    while (!forks.load()) std::this_thread::yield();
    pollfd poll_child = {child_lives.get(), POLLIN, 0};
    const int came = poll(&poll_child, 1, static_cast<int>(kLookForChild.count()));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    socklen_t length = sizeof(address);
    EXPECT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    const ListenerGuard guard("127.0.0.1:" + std::to_string(ntohs(address.sin_port)));
    EXPECT_TRUE(guard.held());
    pause.reset();
    seen = std::chrono::steady_clock::now() - begin < kShorterThanTheWait;
    other.join();
    if (!seen) continue;
    EXPECT_EQ(came, 0) << "forked nevertheless";
    EXPECT_EQ(open, 0);
  }
  EXPECT_TRUE(seen) << "the machine stood still each time";
}

// A pause whose thread waits for a CPU. What is seen counts as above.
TEST_F(ForkGuardTest, AForkWaitsForAStarvedThread) {
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<bool> paused{true};
  std::optional<ForkPause> pause(std::in_place);
  ASSERT_TRUE(pause->held());
  bool forked_in_pause = true;
  std::thread other([&] {
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    forked_in_pause = paused.load();
    waitpid(pid, nullptr, 0);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  paused.store(false);
  const bool seen = std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(1900);
  pause.reset();
  other.join();
  EXPECT_FALSE(seen && forked_in_pause);
}

// As one would that holds a lock which the maker of the listener needs.
TEST_F(ForkGuardTest, AForkDoesNotWaitForEver) {
  const ForkPause pause;
  int answer = -1;
  std::thread([&answer] { answer = InChild([] { return 7; }); }).join();
  EXPECT_EQ(answer, 7);
}

TEST_F(ForkGuardTest, ChildrenOfChildrenFork) {
  EXPECT_EQ(InChild([] { return InChild([] { return 5; }); }), 5);
  const ForkPause pause;
  EXPECT_TRUE(pause.held()) << "a fork that is over still holds it up";
}

TEST_F(ForkGuardTest, RefusesWhatIsNoAddress) {
  for (const char* text :
       {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:x", "127.0.0.1:65536", "unix:"}) {
    EXPECT_FALSE(ListenerGuard(text).held()) << text;
  }
  EXPECT_FALSE(ListenerGuard("unix:/" + std::string(200, 'p')).held());
}

TEST_F(ForkGuardTest, HoldsEightListeners) {
  std::vector<ListenerGuard> guards;
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(guards.emplace_back("127.0.0.1:" + std::to_string(2000 + i)).held());
  }
  EXPECT_FALSE(ListenerGuard("127.0.0.1:3000").held());
  guards.clear();
  EXPECT_TRUE(ListenerGuard("127.0.0.1:3000").held());
}

}  // namespace
}  // namespace jobscope
