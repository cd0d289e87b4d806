// SPDX-License-Identifier: Apache-2.0
//
// Tests binding, refusals and shutdown of the server.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/listen/port_file.h"
#include "tests/again_if_busy.h"
#include "tests/has_ipv6.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ServerTest : public ServiceFixture {
 protected:
  // Why a second server on `address` does not start.
  absl::Status TryAnother(const std::string& address) {
    const auto another = GrpcServer::Start(Options(address));
    EXPECT_FALSE(another.ok());
    return another.status();
  }
  // The same, until `text` is in it: the holder has a second to say who it is, and may not be run.
  absl::Status TryAnother(const std::string& address, const std::string& text) {
    absl::Status status;
    Eventually([&] {
      status = TryAnother(address);
      return absl::StrContains(status.message(), text);
    });
    return status;
  }
};

TEST_F(ServerTest, PortZeroPicksOneAndTellsIt) {
  StartServer();
  EXPECT_THAT(server_->address(), StartsWith("127.0.0.1:"));
  EXPECT_NE(server_->address(), "127.0.0.1:0");
  EXPECT_EQ(Describe().identity().pid(), 4711);
}

TEST_F(ServerTest, ServesIPv6WhereThereIsSome) {
  if (!HasIpv6()) GTEST_SKIP() << "this host has no IPv6 loopback";
  StartServer(Options("[::1]:0"));
  EXPECT_THAT(server_->address(), StartsWith("[::1]:"));
  EXPECT_EQ(Describe().identity().pid(), 4711);
}

TEST_F(ServerTest, ServesAUnixSocket) {
  std::string directory = ::testing::TempDir() + "/serverXXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string address = "unix:" + directory + "/s";
  StartServer(Options(address));
  EXPECT_EQ(server_->address(), address);
  EXPECT_EQ(Describe().identity().pid(), 4711);
  const std::string holder = "a jobscope worker (pid 4711, rank 3)";
  EXPECT_THAT(std::string(TryAnother(address, holder).message()), HasSubstr(holder));
  EXPECT_EQ(Describe().identity().pid(), 4711);  // the socket has survived the attempt
  StopServer();
  StartServer(Options(address));  // the address is free again
  EXPECT_EQ(Describe().identity().pid(), 4711);
  StopServer();
  unlink((directory + "/s").c_str());
  rmdir(directory.c_str());
}

TEST_F(ServerTest, ATakenPortIsRefusedAndItsHolderNamed) {
  StartServer();
  const std::string holder = "a jobscope worker (pid 4711, rank 3)";
  const absl::Status status = TryAnother(server_->address(), holder);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr(server_->address()), HasSubstr(holder), HasSubstr("port 0")));
  EXPECT_EQ(Describe().identity().pid(), 4711);
}

// As stock servers are: Monitor is not implemented, with this text.
class StockServer : public tensorflow::ProfilerService::Service {
 public:
  grpc::Status Monitor(grpc::ServerContext* /*context*/,
                       const tensorflow::MonitorRequest* /*request*/,
                       tensorflow::MonitorResponse* /*response*/) override {
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "unimplemented.");
  }
};

TEST_F(ServerTest, AStockProfilerOnThePortIsNamed) {
  StockServer service;
  int port = 0;
  auto stock = grpc::ServerBuilder()
                   .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port)
                   .RegisterService(&service)
                   .BuildAndStart();
  ASSERT_NE(stock, nullptr);
  const std::string holder = "a TensorFlow or JAX profiler server";
  EXPECT_THAT(std::string(TryAnother(absl::StrCat("127.0.0.1:", port), holder).message()),
              HasSubstr(holder));
}

TEST_F(ServerTest, AListenerThatSaysNothingIsAnotherProgram) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 8), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const absl::Time start = absl::Now();
  EXPECT_THAT(
      std::string(TryAnother(absl::StrCat("127.0.0.1:", ntohs(address.sin_port))).message()),
      HasSubstr("by another program"));
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  close(fd);
}

TEST_F(ServerTest, AnAddressThatOthersReachNeedsTheWordInsecure) {
  const absl::Status status = TryAnother("0.0.0.0:0");
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("0.0.0.0"), HasSubstr("JOBSCOPE_INSECURE=1")));
  GrpcServerOptions options = Options("0.0.0.0:0");
  options.insecure = true;
  StartServer(std::move(options));
  const std::string port = server_->address().substr(server_->address().rfind(':'));
  auto stub = v1::Profiler::NewStub(
      grpc::CreateChannel("127.0.0.1" + port, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::DescribeResponse description;
  EXPECT_TRUE(stub->Describe(&context, {}, &description).ok());
}

TEST_F(ServerTest, AForeignAddressIsRefused) {
  GrpcServerOptions options = Options("192.0.2.1:6009");
  options.insecure = true;
  const auto server = GrpcServer::Start(std::move(options));
  EXPECT_EQ(server.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(server.status().message()),
              HasSubstr("192.0.2.1:6009 is not an address of this host"));
}

TEST_F(ServerTest, StopDeliversARunningCapture) {
  StartServer();
  grpc::ClientContext context, waiting_context;
  auto reply = ProfileAsync(&context, Request(3'600'000, "long"));
  ASSERT_TRUE(AwaitState("recording"));
  auto waiting = ProfileAsync(&waiting_context, Request(3'600'000, "waiting"));
  ASSERT_TRUE(Eventually([&] { return sessions_->busy()->waiting() == 1; }));
  const absl::Time start = absl::Now();
  StopServer(absl::Minutes(2));
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
  const Reply answer = reply.get();
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  const v1::Summary summary = SummaryOf(Trace(answer));
  EXPECT_EQ(summary.ended_by(), "shutdown");
  EXPECT_TRUE(summary.truncated());
  EXPECT_EQ(waiting.get().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(AwaitIdle());
}

TEST_F(ServerTest, StopDoesNotWaitForACollectorThatHangs) {
  int arms = 0;
  ExpectWithin(absl::Seconds(4), [&] {
    StartServer();
    collector_.HangIn("arm");
    grpc::ClientContext context;
    auto reply = ProfileAsync(&context, Request(60'000));
    EXPECT_TRUE(collector_.AwaitCalls("arm", ++arms));
    const absl::Time before = absl::Now();
    StopServer();
    const absl::Duration took = absl::Now() - before;
    EXPECT_FALSE(reply.get().status.ok());
    collector_.Release();
    EXPECT_TRUE(AwaitIdle());
    return took;
  });
}

TEST_F(ServerTest, AnotherServerMayFollow) {
  StartServer();
  const std::string address = server_->address();
  EXPECT_TRUE(Profile(Request(20)).status.ok());
  StopServer();
  StartServer(Options(address));
  EXPECT_TRUE(Profile(Request(20)).status.ok());
}

TEST_F(ServerTest, StopLeavesOtherSessionsOfTheProcessAlone) {
  StartServer();
  SessionOptions options;
  options.session_id = "mine";
  options.duration = absl::InfiniteDuration();
  std::promise<SessionResult> done;
  SessionCallbacks callbacks;
  callbacks.done = [&done](SessionResult result) { done.set_value(std::move(result)); };
  sessions_->Submit(options, WhenBusy::kRefuse, absl::InfiniteFuture(), std::move(callbacks));
  ASSERT_TRUE(AwaitState("recording"));
  StopServer();
  ASSERT_TRUE(sessions_->busy().has_value());
  EXPECT_EQ(sessions_->busy()->session_id(), "mine");
  sessions_->Stop("mine");
  EXPECT_TRUE(done.get_future().get().status.ok());
}

class PortFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = ::testing::TempDir() + "/portsXXXXXX";
    ASSERT_NE(mkdtemp(directory_.data()), nullptr);
    identity_.set_host("node7");
    identity_.set_pid(4711);
  }
  void TearDown() override {
    for (const char* name : {"/node7-4711.addr", "/pod_b-4711.addr", "/3.addr"}) {
      unlink((directory_ + name).c_str());
    }
    EXPECT_EQ(rmdir(directory_.c_str()), 0) << "something was left behind";
  }
  static std::string Read(const std::string& path) {
    std::string text(100, '\0');
    FILE* file = fopen(path.c_str(), "r");
    if (file == nullptr) return "";
    text.resize(fread(text.data(), 1, text.size(), file));
    fclose(file);
    return text;
  }
  std::string directory_;
  v1::Identity identity_;
};

TEST_F(PortFileTest, IsNamedByRankElseByHostAndPid) {
  auto path = WritePortFile(directory_, identity_, "127.0.0.1:40123");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, directory_ + "/node7-4711.addr");
  EXPECT_EQ(Read(*path), "127.0.0.1:40123\n");
  // A container with the same pid, and a name that is not a file name.
  v1::Identity other = identity_;
  other.set_host("pod/b");
  path = WritePortFile(directory_, other, "127.0.0.1:40124");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, directory_ + "/pod_b-4711.addr");
  identity_.set_has_rank(true);
  identity_.set_rank(3);
  path = WritePortFile(directory_, identity_, "0.0.0.0:40123");
  ASSERT_TRUE(path.ok()) << path.status();
  EXPECT_EQ(*path, directory_ + "/3.addr");
  EXPECT_EQ(Read(*path), "node7:40123\n");
}

TEST_F(PortFileTest, IsRemovedUnlessItIsAnothers) {
  const auto path = WritePortFile(directory_, identity_, "127.0.0.1:1");
  ASSERT_TRUE(path.ok());
  RemovePortFile(*path, identity_, "127.0.0.1:2");
  EXPECT_EQ(Read(*path), "127.0.0.1:1\n");
  RemovePortFile(*path, identity_, "127.0.0.1:1");
  EXPECT_EQ(Read(*path), "");
}

// In a directory that others can write to.
TEST_F(PortFileTest, WhatIsPlantedThereHoldsNobodyUp) {
  const std::string path = PortFilePath(directory_, identity_);
  const std::string victim = directory_ + "/victim";
  std::ofstream(victim) << "127.0.0.1:1\n";
  // A FIFO that nobody reads or writes: opening it would wait for ever.
  ASSERT_EQ(mkfifo(path.c_str(), 0666), 0);
  ASSERT_EQ(mkfifo((path + ".4711.tmp").c_str(), 0666), 0);
  RemovePortFile(path, identity_, "127.0.0.1:1");
  EXPECT_EQ(access(path.c_str(), F_OK), 0);
  const auto written = WritePortFile(directory_, identity_, "127.0.0.1:1");
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(Read(path), "127.0.0.1:1\n");
  // A link to a file with the very content.
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(symlink(victim.c_str(), path.c_str()), 0);
  RemovePortFile(path, identity_, "127.0.0.1:1");
  struct stat info = {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << "a link is not ours";
  ASSERT_TRUE(WritePortFile(directory_, identity_, "127.0.0.1:2").ok());
  EXPECT_EQ(Read(victim), "127.0.0.1:1\n");
  RemovePortFile(path, identity_, "127.0.0.1:2");
  EXPECT_NE(lstat(path.c_str(), &info), 0);
  unlink(victim.c_str());
  unlink((path + ".4711.tmp").c_str());
}

TEST_F(PortFileTest, AnothersWithTheSameContentStays) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
  const auto path = WritePortFile(directory_, identity_, "127.0.0.1:1");
  ASSERT_TRUE(path.ok()) << path.status();
  ASSERT_EQ(chown(path->c_str(), 12345, 12345), 0);
  RemovePortFile(*path, identity_, "127.0.0.1:1");
  EXPECT_EQ(Read(*path), "127.0.0.1:1\n");
  ASSERT_EQ(chown(path->c_str(), geteuid(), getegid()), 0);
  RemovePortFile(*path, identity_, "127.0.0.1:1");
  EXPECT_EQ(Read(*path), "");
}

TEST_F(PortFileTest, AMissingDirectoryIsNamed) {
  const auto path = WritePortFile(directory_ + "/no", identity_, "127.0.0.1:1");
  EXPECT_THAT(std::string(path.status().message()),
              AllOf(HasSubstr(directory_ + "/no"), HasSubstr("JOBSCOPE_PORT_DIR")));
}

}  // namespace
}  // namespace jobscope
