// SPDX-License-Identifier: Apache-2.0
//
// Credentials of a worker that are replaced while it serves.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "server/security/certificate_watch.h"
#include "server/security/token_check.h"
#include "tests/certificates.h"
#include "tests/server/security/credentials_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// While it lives, the process can open no descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &previous_);
    const rlimit none = {STDERR_FILENO + 1, previous_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &previous_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit previous_ = {};
};

TEST_F(CredentialsTest, AReplacedTokenIsTakenAndTheOldOneEnds) {
  const auto plain = grpc::InsecureChannelCredentials();
  const std::string old_token = "Bearer 0123456789abcdef-old";
  const std::string new_token = "Bearer 0123456789abcdef-new";
  const std::string file = Write("token", "0123456789abcdef-old\n");
  Serve(Files("", "", "", file));
  ASSERT_TRUE(Call(plain, kDescribe, old_token).ok());
  EXPECT_FALSE(Call(plain, kDescribe, new_token).ok());
  Write("token", "0123456789abcdef-new\n");
  EXPECT_TRUE(Eventually([&] { return Call(plain, kDescribe, new_token).ok(); }));
  EXPECT_FALSE(Call(plain, kDescribe, old_token).ok());
  // Also without anybody who presents the new one.
  Write("token", "0123456789abcdef-old\n");
  EXPECT_TRUE(Eventually([&] { return !Call(plain, kDescribe, new_token).ok(); }));
  EXPECT_TRUE(Call(plain, kDescribe, old_token).ok());
}

TEST_F(CredentialsTest, ATokenFileThatGoesBadLetsNobodyIn) {
  const auto plain = grpc::InsecureChannelCredentials();
  const std::string good = "Bearer 0123456789abcdef";
  const std::string file = Write("token", "0123456789abcdef\n");
  Serve(Files("", "", "", file));
  ASSERT_TRUE(Call(plain, kDescribe, good).ok());
  ASSERT_EQ(chmod(file.c_str(), 0644), 0);
  EXPECT_TRUE(Eventually([&] { return !Call(plain, kDescribe, good).ok(); }));
  ASSERT_EQ(chmod(file.c_str(), 0600), 0);
  EXPECT_TRUE(Eventually([&] { return Call(plain, kDescribe, good).ok(); }));
  ASSERT_EQ(unlink(file.c_str()), 0);
  EXPECT_TRUE(Eventually([&] { return !Call(plain, kDescribe, good).ok(); }));
}

TEST_F(CredentialsTest, ATokenThatCouldNotBeReadIsReadAgain) {
  const std::string file = Write("token", "0123456789abcdef-old\n");
  const auto check = TokenCheck::Create({file, "JOBSCOPE_TOKEN_FILE"});
  ASSERT_TRUE(check.ok()) << check.status();
  Write("token", "0123456789abcdef-new\n");
  {
    const NoDescriptors none;
    ASSERT_TRUE(Eventually([&] { return !(*check)->Accepts("0123456789abcdef-old"); }));
    EXPECT_FALSE((*check)->Accepts("0123456789abcdef-new"));
  }
  EXPECT_TRUE(Eventually([&] { return (*check)->Accepts("0123456789abcdef-new"); }));
}

TEST_F(CredentialsTest, ACertificateThatCouldNotBeReadIsReadAgain) {
  const Certificates& files = Certificates::Get();
  CertificateWatch::Files watched;
  watched.certificate = {Write("server.crt", files.Read("server.crt"), 0644), "JOBSCOPE_TLS_CERT"};
  watched.key = {Write("server.key", files.Read("server.key")), "JOBSCOPE_TLS_KEY"};
  std::atomic<int> looks{0};
  const auto watch = CertificateWatch::Create(watched, [&looks](const FileSetting& file) {
    ++looks;
    return VersionOf(file);
  });
  ASSERT_TRUE(watch.ok()) << watch.status();
  Write("server.crt", files.Read("other_server.crt"), 0644);
  Write("server.key", files.Read("other_server.key"));
  looks = 0;
  ::testing::internal::CaptureStderr();
  {
    const NoDescriptors none;
    // A check looks at three files, and at three when it reads them: two checks have failed.
    EXPECT_TRUE(Eventually([&] {
      EXPECT_EQ((*watch)->NewerThan(1), nullptr);
      return looks > 2 * (3 + 3);
    }));
  }
  EXPECT_TRUE(Eventually([&] { return (*watch)->NewerThan(1) != nullptr; }));
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t warning = log.find("stays in force");
  EXPECT_NE(warning, std::string::npos) << log;
  EXPECT_EQ(log.find("stays in force", warning + 1), std::string::npos) << log;
}

// As a renewal does it: file by file, whatever the order. Who is connected notices nothing.
TEST_F(CredentialsTest, AReplacedCertificateIsShownToWhoConnects) {
  const Certificates& files = Certificates::Get();
  const std::string crt = Write("server.crt", files.Read("server.crt"), 0644);
  const std::string key = Write("server.key", files.Read("server.key"));
  Serve(Files(crt, key));
  const auto connected =
      v1::Profiler::NewStub(grpc::CreateChannel(server_->address(), Tls("", "ca")));
  const auto describe = [&connected] {
    grpc::ClientContext context;
    v1::DescribeResponse response;
    return connected->Describe(&context, {}, &response).ok();
  };
  ASSERT_TRUE(describe());
  ASSERT_TRUE(Call(Tls("", "ca"), kDescribe, "").ok());
  EXPECT_FALSE(Call(Tls("", "other_ca"), kDescribe, "").ok());

  // Halfway: the new file matches no other, so the old pair stays in force.
  ::testing::internal::CaptureStderr();
  Write("server.crt", files.Read("other_server.crt"), 0644);
  std::string log;
  ASSERT_TRUE(Eventually([&] {
    EXPECT_TRUE(Call(Tls("", "ca"), kDescribe, "").ok());
    log += ::testing::internal::GetCapturedStderr();
    ::testing::internal::CaptureStderr();
    return log.find("stays in force") != std::string::npos;
  }));
  log += ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log,
              AllOf(HasSubstr("JOBSCOPE_TLS_KEY="), HasSubstr("does not match the certificate")));

  Write("server.key", files.Read("other_server.key"));
  EXPECT_TRUE(Eventually([&] { return Call(Tls("", "other_ca"), kDescribe, "").ok(); }));
  EXPECT_FALSE(Call(Tls("", "ca"), kDescribe, "").ok());
  EXPECT_TRUE(describe()) << "its connection is older";
  // And back, as long as the server lives.
  Write("server.crt", files.Read("server.crt"), 0644);
  Write("server.key", files.Read("server.key"));
  EXPECT_TRUE(Eventually([&] { return Call(Tls("", "ca"), kDescribe, "").ok(); }));
}

// The thread that accepts all connections asks for the certificate.
TEST_F(CredentialsTest, AHangingFileSystemDelaysNoConnection) {
  const Certificates& files = Certificates::Get();
  CertificateWatch::Files watched;
  watched.certificate = {Write("server.crt", files.Read("server.crt"), 0644), "JOBSCOPE_TLS_CERT"};
  watched.key = {Write("server.key", files.Read("server.key")), "JOBSCOPE_TLS_KEY"};
  std::atomic<bool> hangs{false};
  absl::Notification hanging;
  absl::Notification recovers;
  const auto watch = CertificateWatch::Create(watched, [&](const FileSetting& file) {
    if (hangs.exchange(false)) {
      hanging.Notify();
      recovers.WaitForNotification();
    }
    return VersionOf(file);
  });
  ASSERT_TRUE(watch.ok()) << watch.status();
  hangs = true;
  auto asked = std::async(std::launch::async, [&] {
    EXPECT_TRUE(Eventually([&] {
      EXPECT_EQ((*watch)->NewerThan(1), nullptr);
      return hanging.HasBeenNotified();
    }));
    EXPECT_NE((*watch)->NewerThan(0), nullptr) << "the known one";
  });
  EXPECT_EQ(asked.wait_for(std::chrono::minutes(2)), std::future_status::ready);
  Write("server.crt", files.Read("other_server.crt"), 0644);
  Write("server.key", files.Read("other_server.key"));
  recovers.Notify();
  asked.wait();
  EXPECT_TRUE(Eventually([&] { return (*watch)->NewerThan(1) != nullptr; }));
}

// Callers present their tokens on gRPC's threads.
TEST_F(CredentialsTest, AHangingFileSystemDelaysNoCaller) {
  const std::string file = Write("token", "0123456789abcdef-old\n");
  std::atomic<bool> hangs{false};
  absl::Notification hanging;
  absl::Notification recovers;
  const auto check =
      TokenCheck::Create({file, "JOBSCOPE_TOKEN_FILE"}, [&](const FileSetting& setting) {
        if (hangs.exchange(false)) {
          hanging.Notify();
          recovers.WaitForNotification();
        }
        return VersionOf(setting);
      });
  ASSERT_TRUE(check.ok()) << check.status();
  hangs = true;
  auto asked = std::async(std::launch::async, [&] {
    EXPECT_TRUE(Eventually([&] {
      EXPECT_TRUE((*check)->Accepts("0123456789abcdef-old")) << "the known one";
      return hanging.HasBeenNotified();
    }));
  });
  EXPECT_EQ(asked.wait_for(std::chrono::minutes(2)), std::future_status::ready);
  Write("token", "0123456789abcdef-new\n");
  recovers.Notify();
  asked.wait();
  EXPECT_TRUE(Eventually([&] { return (*check)->Accepts("0123456789abcdef-new"); }));
  EXPECT_FALSE((*check)->Accepts("0123456789abcdef-old"));
}

TEST_F(CredentialsTest, AReplacedAuthorityLetsInItsOwn) {
  const Certificates& files = Certificates::Get();
  const std::string authorities = Write("ca.crt", files.Read("ca.crt"), 0644);
  Serve(Files(Cert("server.crt"), Cert("server.key"), authorities));
  ASSERT_TRUE(Call(Tls("client"), kDescribe, "").ok());
  EXPECT_FALSE(Call(Tls("other_client"), kDescribe, "").ok());
  // Both, while operators get new ones; then the new one alone.
  Write("ca.crt", files.Read("ca.crt") + files.Read("other_ca.crt"), 0644);
  EXPECT_TRUE(Eventually([&] { return Call(Tls("other_client"), kDescribe, "").ok(); }));
  EXPECT_TRUE(Call(Tls("client"), kDescribe, "").ok());
  Write("ca.crt", files.Read("other_ca.crt"), 0644);
  EXPECT_TRUE(Eventually([&] { return !Call(Tls("client"), kDescribe, "").ok(); }));
  EXPECT_TRUE(Call(Tls("other_client"), kDescribe, "").ok());
  // One that is no good changes nothing.
  Write("ca.crt", "nobody", 0644);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Call(Tls("other_client"), kDescribe, "").ok());
}

TEST_F(CredentialsTest, ACertificateMayChangeOnEveryPort) {
  const Certificates& files = Certificates::Get();
  const std::string crt = Write("server.crt", files.Read("server.crt"), 0644);
  const std::string key = Write("server.key", files.Read("server.key"));
  const auto credentials = Credentials::Load(Files(crt, key));
  ASSERT_TRUE(credentials.ok());
  // Two ports of one server: each fetches for itself.
  grpc::ServerBuilder builder;
  int ports[2] = {0, 0};
  std::vector<std::shared_ptr<grpc::ServerCredentials>> kept;
  for (int& port : ports) {
    kept.push_back(credentials->ForPort({"127.0.0.1:0", true}, std::make_shared<AuditLog>()));
    builder.AddListeningPort("127.0.0.1:0", kept.back(), &port);
  }
  grpc::AsyncGenericService generic;
  builder.RegisterAsyncGenericService(&generic);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  const auto connects = [](int port, const std::string& authorities) {
    const auto channel =
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port), Tls("", authorities));
    const auto deadline = std::chrono::system_clock::now() + std::chrono::minutes(1);
    grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
    while (state != GRPC_CHANNEL_READY && state != GRPC_CHANNEL_TRANSIENT_FAILURE &&
           channel->WaitForStateChange(state, deadline)) {
      state = channel->GetState(/*try_to_connect=*/true);
    }
    return state == GRPC_CHANNEL_READY;
  };
  for (const int port : ports) EXPECT_TRUE(connects(port, "ca"));
  Write("server.crt", files.Read("other_server.crt"), 0644);
  Write("server.key", files.Read("other_server.key"));
  for (const int port : ports) {
    EXPECT_TRUE(Eventually([&] { return connects(port, "other_ca"); }));
  }
  server->Shutdown();
  queue->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) {
  }
}

}  // namespace
}  // namespace jobscope
