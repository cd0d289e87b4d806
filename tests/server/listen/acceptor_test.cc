// SPDX-License-Identifier: Apache-2.0
//
// Tests which connections stay open, which are closed, and how they are set up.
#include "server/listen/acceptor.h"

#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/security/allowed_users.h"
#include "tests/server/native/native_fixture.h"
#include "tests/server/sockets.h"

namespace jobscope {
namespace {

int PortOf(const std::string& address) { return std::stoi(address.substr(address.rfind(':') + 1)); }

// The server's sockets of accepted connections in this process.
std::vector<int> Accepted(int port) {
  std::vector<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in6 local = {};  // gRPC's are dual-stack; the port of IPv4 has the same place
    sockaddr_in6 peer = {};
    socklen_t size = sizeof(local);
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &size) != 0) continue;
    size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    const bool inet = local.sin6_family == AF_INET || local.sin6_family == AF_INET6;
    if (inet && ntohs(local.sin6_port) == port) found.push_back(fd);
  }
  return found;
}

// Where this host can listen: IPv6 may be off, and an interface may have no link-local address.
std::vector<std::string> AddressesOfEachKind() {
  std::vector<std::string> found = {"127.0.0.1:0"};
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET6) continue;
    const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
    if (!IN6_IS_ADDR_LOOPBACK(&address) && !IN6_IS_ADDR_LINKLOCAL(&address)) continue;
    char host[NI_MAXHOST] = "";
    getnameinfo(one->ifa_addr, sizeof(sockaddr_in6), host, sizeof(host), nullptr, 0,
                NI_NUMERICHOST);
    std::string text = absl::StrCat("[", host, "]:0");
    if (ListenSocket::Open({text, true}, {}).ok()) found.push_back(std::move(text));
  }
  freeifaddrs(all);
  return found;
}

class AcceptorTest : public NativeFixture {
 protected:
  // A channel that shares its connection with no other.
  std::unique_ptr<v1::Profiler::Stub> Dial() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    std::string target = server_->address();
    if (absl::StrContains(target, '%')) {
      target = absl::StrCat("ipv6:", absl::StrReplaceAll(target, {{"%", "%25"}}));
    }
    return v1::Profiler::NewStub(
        grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments));
  }
  static grpc::Status Describe(v1::Profiler::Stub* stub) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    v1::DescribeResponse response;
    return stub->Describe(&context, {}, &response);
  }
  std::vector<RawConnection> Connect(size_t count, const std::string& first_bytes = "") const {
    std::vector<RawConnection> callers;
    while (callers.size() < count) callers.emplace_back(server_->address(), first_bytes);
    return callers;
  }
  static size_t CountClosed(const std::vector<RawConnection>& callers) {
    return static_cast<size_t>(
        std::count_if(callers.begin(), callers.end(),
                      [](const RawConnection& caller) { return caller.closed(); }));
  }
};

// What gRPC's own listener does for its connections.
TEST_F(AcceptorTest, SocketsAreSetUpAsGrpcDoes) {
  const auto options_of = [](int fd) {
    const auto get = [fd](int level, int name) {
      int value = -1;
      socklen_t size = sizeof(value);
      getsockopt(fd, level, name, &value, &size);
      return value;
    };
    return std::make_tuple(fcntl(fd, F_GETFD), fcntl(fd, F_GETFL) & O_NONBLOCK,
                           get(IPPROTO_TCP, TCP_NODELAY), get(IPPROTO_TCP, TCP_USER_TIMEOUT),
                           get(SOL_SOCKET, SO_KEEPALIVE), get(SOL_SOCKET, SO_RCVBUF));
  };
  tensorflow::ProfilerService::Service any;
  int port = 0;
  auto grpcs = grpc::ServerBuilder()
                   .RegisterService(&any)
                   .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port)
                   .AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, limits::kKeepaliveTimeMs)
                   .AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, limits::kKeepaliveTimeoutMs)
                   .BuildAndStart();
  ASSERT_NE(grpcs, nullptr);
  StartServer();
  const RawConnection to_grpc(absl::StrCat("127.0.0.1:", port), kHttp2Preface);
  const RawConnection to_ours(server_->address(), kHttp2Preface);
  const int own_port = PortOf(server_->address());
  // Ours holds it, too, until there is a request.
  ASSERT_TRUE(
      Eventually([&] { return Accepted(port).size() == 1 && Accepted(own_port).size() == 2; }));
  for (const int fd : Accepted(own_port)) {
    EXPECT_EQ(options_of(fd), options_of(Accepted(port).front()));
  }
}

// The acceptor knows the connection by the peer that gRPC tells.
TEST_F(AcceptorTest, ARequestGivesADescriptorBack) {
  for (const std::string& address : AddressesOfEachKind()) {
    GrpcServerOptions options = Options(address);
    options.insecure = true;  // a link-local address is no loopback address
    StartServer(std::move(options));
    auto channel = Dial();
    ASSERT_TRUE(Describe(channel.get()).ok()) << address;
    EXPECT_TRUE(Eventually([&] { return Accepted(PortOf(server_->address())).size() == 1; }))
        << address;
    EXPECT_TRUE(Describe(channel.get()).ok());
    StopServer();
  }
}

TEST_F(AcceptorTest, TheOldestSilentOneMakesRoom) {
  StartServer();
  auto first = Dial();
  ASSERT_TRUE(Describe(first.get()).ok());
  const std::vector<RawConnection> callers = Connect(100);
  EXPECT_TRUE(Eventually([&] { return CountClosed(callers) >= 100 - 32; }));
  EXPECT_TRUE(callers.front().closed());
  EXPECT_FALSE(callers.back().closed());
}

// A connection that has sent a request stays, with its call, while others come.
TEST_F(AcceptorTest, ARequestProtectsItsConnection) {
  StartServer();
  grpc::ClientContext context;
  auto reply = ProfileAsync(&context, Request(60'000, "long"));
  ASSERT_TRUE(AwaitState("recording"));
  const std::vector<RawConnection> silent = Connect(100);
  const std::vector<RawConnection> speaking = Connect(100, kHttp2Preface);
  EXPECT_TRUE(Eventually([&] { return CountClosed(speaking) > 30; }));
  EXPECT_TRUE(Describe(Dial().get()).ok());
  EXPECT_EQ(sessions_->Stop("long"), "long");
  EXPECT_TRUE(reply.get().status.ok());
}

// More than there is room for, at once: nobody is turned away before their time.
TEST_F(AcceptorTest, ManyCallersAtOnceAreAllAnswered) {
  GrpcServerOptions options = Options();
  // On a busy machine a handshake may take seconds.
  options.acceptor.min_age = absl::Minutes(2);
  options.acceptor.max_wait = absl::Hours(2);
  options.acceptor.silence = absl::Minutes(2);
  options.handshake_timeout_ms = 120'000;
  StartServer(std::move(options));
  std::vector<std::thread> callers;
  std::atomic<int> answered{0};
  for (int i = 0; i < 100; ++i) {
    callers.emplace_back([&] {
      const grpc::Status status = Describe(Dial().get());
      EXPECT_TRUE(status.ok()) << status.error_message();
      if (status.ok()) ++answered;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(answered, 100);
}

TEST_F(AcceptorTest, SilenceIsBounded) {
  GrpcServerOptions options = Options();
  options.acceptor.silence = absl::Milliseconds(200);
  StartServer(std::move(options));
  const RawConnection caller(server_->address());
  EXPECT_TRUE(Eventually([&] { return caller.closed(); }));
}

TEST_F(AcceptorTest, AHandshakeIsBounded) {
  GrpcServerOptions options = Options();
  options.handshake_timeout_ms = 200;
  StartServer(std::move(options));
  const RawConnection caller(server_->address(), kHttp2Preface);
  EXPECT_TRUE(Eventually([&] { return caller.closed(); }));
  EXPECT_TRUE(Eventually([&] { return Accepted(PortOf(server_->address())).empty(); }));
}

// gRPC ends connections without calls; a call that runs is none, and a client that holds its
// channel does not notice.
TEST_F(AcceptorTest, AnIdleConnectionEndsWithoutHarm) {
  GrpcServerOptions options = Options();
  options.max_idle_ms = 300;
  StartServer(std::move(options));
  const int port = PortOf(server_->address());
  const RawConnection mute(server_->address(), kHttp2Preface + kHttp2Settings);
  auto held = Dial();
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Describe(held.get()).ok());
    EXPECT_TRUE(Eventually([&] { return Accepted(port).empty(); })) << "round " << i;
  }
  auto stream = Arm();
  EXPECT_FALSE(Accepted(port).empty());
  auto reply = std::async(std::launch::async, [&] { return Describe(held.get()).ok(); });
  EXPECT_TRUE(reply.get());
  // The held one goes again, the one with the stream stays.
  EXPECT_TRUE(Eventually([&] { return Accepted(port).size() == 1; }));
  absl::SleepFor(absl::Milliseconds(600));  // two idle times: of a thing that must not happen
  EXPECT_EQ(Accepted(port).size(), 1U);
  EXPECT_TRUE(sessions_->busy().has_value());
}

// Each caller of Stop may bind the port, or shut gRPC down, when it returns.
TEST(AcceptorStopTest, EveryStopWaitsForTheThread) {
  auto listener = ListenSocket::Open({"127.0.0.1:0", true}, {});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const BindTarget target = listener->target();
  std::vector<ListenSocket> listeners;
  listeners.push_back(*std::move(listener));
  AcceptorLimits limits;
  limits.stop = absl::Minutes(2);
  Acceptor acceptor(std::move(listeners), limits);
  absl::Notification asked;
  absl::Notification answer;
  std::atomic<int> handed_over{0};
  ASSERT_TRUE(acceptor
                  .Start(
                      [&](size_t, int, int fd, bool) {
                        ++handed_over;
                        close(fd);
                      },
                      [&](size_t, int, absl::string_view) {
                        asked.Notify();
                        answer.WaitForNotification();
                        return true;
                      })
                  .ok());
  const RawConnection caller(target.text, kHttp2Preface);
  asked.WaitForNotification();
  std::vector<std::future<void>> stops;
  for (int i = 0; i < 2; ++i) {
    stops.push_back(std::async(std::launch::async, [&] { acceptor.Stop(); }));
  }
  for (const std::future<void>& stop : stops) {
    EXPECT_EQ(stop.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  }
  answer.Notify();
  for (const std::future<void>& stop : stops) stop.wait();
  EXPECT_EQ(handed_over, 0) << "gRPC may have shut down";
  EXPECT_TRUE(caller.closed());
  EXPECT_THAT(Accepted(PortOf(target.text)), ::testing::IsEmpty());
  EXPECT_TRUE(ListenSocket::Open(target, {}).ok());
}

// gRPC's threads may not be run for seconds. What was closed counts until they are.
TEST(AcceptorClosingTest, WhatGrpcStillHoldsIsBounded) {
  constexpr size_t kPlaces = 4;
  constexpr size_t kMaxClosing = 8;
  auto listener = ListenSocket::Open({"127.0.0.1:0", true}, {});
  ASSERT_TRUE(listener.ok()) << listener.status();
  const std::string address = listener->target().text;
  std::vector<ListenSocket> listeners;
  listeners.push_back(*std::move(listener));
  AcceptorLimits limits;
  limits.max_descriptors = 2 * kPlaces;
  limits.min_age = absl::ZeroDuration();
  Acceptor acceptor(std::move(listeners), limits);
  absl::Mutex mutex;
  std::vector<int> held;
  const auto count = [&] {
    const absl::MutexLock lock(&mutex);
    return held.size();
  };
  ASSERT_TRUE(acceptor
                  .Start([&](size_t, int, int fd, bool) {
                    const absl::MutexLock lock(&mutex);
                    held.push_back(fd);
                  })
                  .ok());
  std::vector<RawConnection> callers;
  while (callers.size() < 100) callers.emplace_back(address, kHttp2Preface);
  EXPECT_TRUE(Eventually([&] { return count() == kPlaces + kMaxClosing; }));
  absl::SleepFor(absl::Milliseconds(200));  // of a thing that must not happen
  EXPECT_EQ(count(), kPlaces + kMaxClosing);
  // They are run again: one closes, another one comes.
  for (size_t taken = kPlaces + kMaxClosing; taken < callers.size(); ++taken) {
    {
      const absl::MutexLock lock(&mutex);
      close(held[taken - kPlaces - kMaxClosing]);
    }
    ASSERT_TRUE(Eventually([&] { return count() > taken; })) << taken;
  }
  acceptor.Stop();
  for (size_t i = callers.size() - kPlaces - kMaxClosing; i < callers.size(); ++i) close(held[i]);
}

class UnixAcceptorTest : public AcceptorTest {
 protected:
  UnixAcceptorTest() {
    directory_ = ::testing::TempDir() + "/acceptorXXXXXX";
    if (mkdtemp(directory_.data()) == nullptr) std::abort();
    path_ = directory_ + "/s";
  }
  ~UnixAcceptorTest() override {
    StopServer();
    unlink(path_.c_str());
    rmdir(directory_.c_str());
  }
  mode_t Mode() const {
    struct stat info = {};
    return lstat(path_.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }
  std::string directory_, path_;
};

TEST_F(UnixAcceptorTest, TheModeIsPrivateWhateverTheUmask) {
  for (const mode_t mask : {mode_t{0}, mode_t{0022}, mode_t{0777}}) {
    const mode_t previous = umask(mask);
    StartServer(Options("unix:" + path_));
    EXPECT_EQ(Mode(), 0600U) << "umask " << mask;
    EXPECT_EQ(umask(previous), mask) << "the umask is the job's";
    EXPECT_EQ(AcceptorTest::Describe(native_.get()).ok(), true);
    StopServer();
    EXPECT_EQ(Mode(), 0U) << "the file is left behind";
  }
  const mode_t previous = umask(0);
  GrpcServerOptions options = Options("unix:" + path_);
  options.insecure = true;
  StartServer(std::move(options));
  EXPECT_EQ(Mode(), 0777U) << "opened by the word insecure";
  umask(previous);
}

// A token replaces the check of users: others who may connect could use up all connections.
TEST_F(UnixAcceptorTest, TheModeIsOpenOnlyWhereUsersAreChecked) {
  const std::string token = directory_ + "/token";
  std::ofstream(token) << "0123456789abcdef\n";
  ASSERT_EQ(chmod(token.c_str(), 0600), 0);
  for (const std::string& file : {std::string(), token}) {
    GrpcServerOptions options = Options("unix:" + path_);
    options.allowed_users = *AllowedUsers::Parse("4711");
    options.credentials.token.path = file;
    StartServer(std::move(options));
    EXPECT_EQ(Mode(), file.empty() ? 0666U : 0600U) << file;
    StopServer();
  }
  EXPECT_EQ(unlink(token.c_str()), 0);
}

TEST_F(UnixAcceptorTest, AnotherPathIsTheRemedy) {
  StartServer(Options("unix:" + path_));
  const auto second = GrpcServer::Start(Options("unix:" + path_));
  EXPECT_THAT(std::string(second.status().message()), ::testing::EndsWith(": choose another path"));
}

TEST_F(UnixAcceptorTest, AnothersFileStays) {
  StartServer(Options("unix:" + path_));
  ASSERT_EQ(unlink(path_.c_str()), 0);
  ASSERT_EQ(symlink("/nowhere", path_.c_str()), 0);
  StopServer();
  struct stat info = {};
  EXPECT_EQ(lstat(path_.c_str(), &info), 0);
}

}  // namespace
}  // namespace jobscope
