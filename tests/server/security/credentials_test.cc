// SPDX-License-Identifier: Apache-2.0
//
// Credentials of a worker: what is refused at the start, and who gets in, on real sockets.
#include "server/security/credentials.h"

#include <gmock/gmock.h>
#include <grpc/grpc_security_constants.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/security/certificate_watch.h"
#include "server/security/token_check.h"
#include "tests/certificates.h"
#include "tests/server/service_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Cert(const std::string& name) { return Certificates::Get().Path(name); }

// As the environment would give them.
CredentialFiles Files(const std::string& certificate, const std::string& key,
                      const std::string& authorities = "", const std::string& token = "") {
  CredentialFiles files;
  if (!certificate.empty()) files.tls_certificate = {certificate, "JOBSCOPE_TLS_CERT"};
  if (!key.empty()) files.tls_key = {key, "JOBSCOPE_TLS_KEY"};
  if (!authorities.empty()) files.tls_authorities = {authorities, "JOBSCOPE_TLS_CA"};
  if (!token.empty()) files.token = {token, "JOBSCOPE_TOKEN_FILE"};
  return files;
}

class CredentialsTest : public ServiceFixture {
 protected:
  CredentialsTest() : directory_(::testing::TempDir() + "/credentialsXXXXXX") {
    if (mkdtemp(directory_.data()) == nullptr) std::abort();
  }
  ~CredentialsTest() override {
    StopServer();
    std::filesystem::remove_all(directory_);
  }

  // A file in a directory of this test.
  std::string Write(const std::string& name, const std::string& content, mode_t mode = 0600) {
    const std::string path = directory_ + "/" + name;
    // As secrets are replaced where that is done well: renamed onto the old file.
    const std::string fresh = path + ".new";
    std::ofstream(fresh, std::ios::binary) << content;
    EXPECT_EQ(chmod(fresh.c_str(), mode), 0);
    EXPECT_EQ(rename(fresh.c_str(), path.c_str()), 0);
    return path;
  }

  static std::string Refused(const CredentialFiles& files) {
    const auto credentials = Credentials::Load(files);
    EXPECT_EQ(credentials.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(credentials.status().message());
  }

  void Serve(const CredentialFiles& files, const std::string& address = "127.0.0.1:0") {
    GrpcServerOptions options = Options(address);
    options.credentials = files;
    StartServer(std::move(options));
  }

  static std::shared_ptr<grpc::ChannelCredentials> Tls(const std::string& own = "",
                                                       const std::string& authorities = "ca") {
    const Certificates& files = Certificates::Get();
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = files.Read(authorities + ".crt");
    if (!own.empty()) {
      options.pem_cert_chain = files.Read(own + ".crt");
      options.pem_private_key = files.Read(own + ".key");
    }
    return grpc::SslCredentials(options);
  }

  // Calls any method with a header "authorization", or with none. `body`: a serialized request.
  grpc::Status Call(const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                    const std::string& method, const std::string& authorization,
                    std::string address = "") {
    if (address.empty()) address = server_->address();
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(address, credentials, arguments);
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    if (!authorization.empty()) context.AddMetadata("authorization", authorization);
    grpc::CompletionQueue queue;
    const grpc::Slice empty("");
    const grpc::ByteBuffer request(&empty, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    call->Finish(&response, &status, this);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    queue.Shutdown();
    return status;
  }

  std::string directory_;
};

constexpr char kDescribe[] = "/jobscope.v1.Profiler/Describe";
constexpr char kMonitor[] = "/tensorflow.ProfilerService/Monitor";
constexpr char kHealth[] = "/grpc.health.v1.Health/Check";
constexpr char kUnknown[] = "/no.such.Service/Method";
constexpr char kUnknownMethod[] = "/jobscope.v1.Profiler/NoSuchMethod";

TEST_F(CredentialsTest, FilesThatAreNotGoodAreNamedWithTheRemedy) {
  const std::string key_copy = Certificates::Get().Read("server.key");
  const std::string directory = directory_;
  const struct {
    CredentialFiles files;
    std::vector<const char*> texts;
  } cases[] = {
      {Files(Cert("server.crt"), ""),
       {"JOBSCOPE_TLS_CERT=", "server.crt", "JOBSCOPE_TLS_KEY (options.tls_key) is not"}},
      {Files("", Cert("server.key")), {"JOBSCOPE_TLS_KEY=", "JOBSCOPE_TLS_CERT"}},
      {Files("", "", Cert("ca.crt")), {"JOBSCOPE_TLS_CA=", "JOBSCOPE_TLS_CERT", "too"}},
      {Files("/absent/cert", Cert("server.key")),
       {"JOBSCOPE_TLS_CERT=/absent/cert", "No such file"}},
      {Files(directory, Cert("server.key")), {"not a regular file"}},
      {Files(Cert("server.key"), Cert("server.key")),
       {"JOBSCOPE_TLS_CERT=", "holds no certificate"}},
      {Files(Cert("server.crt"), Write("text.key", "no key")), {"holds no private key"}},
      {Files(Cert("server.crt"), Cert("client.key")),
       {"JOBSCOPE_TLS_KEY=", "client.key", "does not match the certificate in JOBSCOPE_TLS_CERT="}},
      {Files(Cert("server.crt"), Write("open.key", key_copy, 0644)),
       {"JOBSCOPE_TLS_KEY=", "everybody", "chmod 600", "0440"}},
      {Files(Cert("expired.crt"), Cert("expired.key")), {"has expired, at 20", "UTC", "renew"}},
      {Files(Cert("not_yet_valid.crt"), Cert("not_yet_valid.key")),
       {"not valid before 20", "clock says"}},
      {Files(Cert("client.crt"), Cert("client.key")), {"not meant for a TLS server", "serverAuth"}},
      {Files(Cert("server.crt"), Cert("server.key"), Cert("token")),
       {"JOBSCOPE_TLS_CA=", "holds no certificate"}},
      {Files("", "", "", "/absent/token"), {"JOBSCOPE_TOKEN_FILE=/absent/token", "No such file"}},
      {Files("", "", "", Write("empty", "")), {"JOBSCOPE_TOKEN_FILE=", "is empty"}},
      {Files("", "", "", Write("blank", "\n\n")), {"no token"}},
      {Files("", "", "", Write("short", "0123456789abcde\n")), {"15 characters", "16 to 1024"}},
      {Files("", "", "", Write("two", "0123456789abcdef\n0123456789abcdef\n")), {"line break"}},
      {Files("", "", "", Write("bell", "0123456789abc\adef\n")), {"visible ASCII"}},
      {Files("", "", "",
             Write("umlaut",
                   "0123456789abc\xc3\xbc"
                   "def")),
       {"visible ASCII"}},
      {Files("", "", "", Write("long", std::string(1025, 'x'))), {"1025 characters"}},
      {Files("", "", "", Write("open", "0123456789abcdef", 0604)),
       {"JOBSCOPE_TOKEN_FILE=", "everybody", "chmod 600"}},
  };
  for (const auto& bad : cases) {
    const std::string text = Refused(bad.files);
    for (const char* part : bad.texts) EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST_F(CredentialsTest, AGroupMayReadASecret) {
  const std::string token = Write("group", "0123456789abcdef\n", 0640);
  EXPECT_TRUE(Credentials::Load(Files("", "", "", token)).ok());
}

TEST_F(CredentialsTest, AKeyWithAPassphraseIsRefusedWithoutAsking) {
  const std::string key = directory_ + "/locked.key";
  const std::string command = absl::StrCat("openssl pkey -aes128 -passout pass:secret -in ",
                                           Cert("server.key"), " -out ", key);
  ASSERT_EQ(std::system(command.c_str()), 0);  // NOLINT(bugprone-command-processor)
  ASSERT_EQ(chmod(key.c_str(), 0600), 0);
  EXPECT_THAT(Refused(Files(Cert("server.crt"), key)), HasSubstr("passphrase"));
}

TEST_F(CredentialsTest, AReachableAddressNeedsACallerThatIsKnown) {
  const std::vector<BindTarget> outside = {{"10.0.0.1:6009", false}};
  const std::vector<BindTarget> loopback = {{"127.0.0.1:6009", true}, {"[::1]:6009", true}};
  const std::vector<BindTarget> other_loopback = {{"127.0.0.2:6009", true}};
  const std::string crt = Cert("server.crt"), key = Cert("server.key");
  const Credentials none = *Credentials::Load({});
  const Credentials tls = *Credentials::Load(Files(crt, key));
  const Credentials mutual = *Credentials::Load(Files(crt, key, Cert("ca.crt")));
  const Credentials token_only = *Credentials::Load(Files("", "", "", Cert("token")));
  const Credentials token = *Credentials::Load(Files(crt, key, "", Cert("token")));
  for (const Credentials* credentials : {&none, &tls, &mutual, &token_only, &token}) {
    EXPECT_TRUE(credentials->CheckReach(loopback, false).ok());
  }
  EXPECT_TRUE(mutual.CheckReach(outside, false).ok());
  EXPECT_TRUE(token.CheckReach(outside, false).ok());
  EXPECT_TRUE(none.CheckReach(outside, true).ok());
  EXPECT_TRUE(tls.CheckReach(outside, true).ok());

  const absl::Status without = none.CheckReach(outside, false);
  EXPECT_EQ(without.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(without.message()),
              AllOf(HasSubstr("10.0.0.1:6009"), HasSubstr("JOBSCOPE_TLS_CERT"),
                    HasSubstr("JOBSCOPE_INSECURE=1")));
  const absl::Status half = tls.CheckReach(outside, false);
  EXPECT_EQ(half.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(half.message()),
              AllOf(HasSubstr("TLS alone"), HasSubstr("JOBSCOPE_TLS_CA"),
                    HasSubstr("JOBSCOPE_TOKEN_FILE")));
  for (const bool insecure : {false, true}) {
    const absl::Status clear = token_only.CheckReach(outside, insecure);
    EXPECT_EQ(clear.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(clear.message()),
                AllOf(HasSubstr("clear text"), HasSubstr("JOBSCOPE_TLS_CERT")));
    EXPECT_FALSE(token_only.CheckReach(other_loopback, insecure).ok());
  }
}

TEST_F(CredentialsTest, WithoutTheTokenEveryMethodLooksTheSame) {
  Serve(Files(Cert("server.crt"), Cert("server.key"), "", Cert("token")));
  for (const char* authorization :
       {"", "Bearer wrong-wrong-wrong", "Basic dXNlcjpwYXNz", "Bearer "}) {
    const grpc::Status expected = Call(Tls(), kUnknown, authorization);
    EXPECT_EQ(expected.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_THAT(expected.error_message(), HasSubstr("--token_file"));
    for (const char* method : {kDescribe, kMonitor, kHealth, kUnknownMethod,
                               "/jobscope.v1.Profiler/Capture", "/jobscope.v1.Profiler/Fetch"}) {
      const grpc::Status status = Call(Tls(), method, authorization);
      EXPECT_EQ(status.error_code(), expected.error_code()) << method;
      EXPECT_EQ(status.error_message(), expected.error_message()) << method;
    }
  }
  EXPECT_THAT(Call(Tls(), kDescribe, "").error_message(), HasSubstr("requires a token"));
  EXPECT_THAT(Call(Tls(), kDescribe, "Bearer no").error_message(), HasSubstr("not this worker's"));
}

TEST_F(CredentialsTest, WithTheTokenEveryServiceIsThere) {
  Serve(Files(Cert("server.crt"), Cert("server.key"), "", Cert("token")));
  for (const char* scheme : {"Bearer ", "bearer "}) {
    const std::string good = scheme + Certificates::Get().Token();
    EXPECT_TRUE(Call(Tls(), kDescribe, good).ok());
    EXPECT_TRUE(Call(Tls(), kMonitor, good).ok());
    EXPECT_TRUE(Call(Tls(), kHealth, good).ok());
    EXPECT_EQ(Call(Tls(), kUnknown, good).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  }
}

TEST_F(CredentialsTest, MutualTlsLetsInWhoHasACertificateOfTheCa) {
  Serve(Files(Cert("server.crt"), Cert("server.key"), Cert("ca.crt")));
  EXPECT_TRUE(Call(Tls("client"), kDescribe, "").ok());
  EXPECT_TRUE(Call(Tls("client"), kHealth, "").ok());
  for (const char* own : {"", "other_client", "expired"}) {
    for (const char* method : {kDescribe, kHealth, kUnknown}) {
      EXPECT_EQ(Call(Tls(own), method, "").error_code(), grpc::StatusCode::UNAVAILABLE) << own;
    }
  }
  // Plain HTTP/2 gets nowhere.
  EXPECT_EQ(Call(grpc::InsecureChannelCredentials(), kDescribe, "").error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(CredentialsTest, MutualTlsAndATokenAreBothNeeded) {
  Serve(Files(Cert("server.crt"), Cert("server.key"), Cert("ca.crt"), Cert("token")));
  const std::string good = "Bearer " + Certificates::Get().Token();
  EXPECT_TRUE(Call(Tls("client"), kDescribe, good).ok());
  EXPECT_EQ(Call(Tls("client"), kDescribe, "").error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(Call(Tls(), kDescribe, good).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(CredentialsTest, TheNameInTheCertificateIsTheCaller) {
  Serve(Files(Cert("server.crt"), Cert("server.key"), Cert("ca.crt")));
  auto stub =
      tensorflow::ProfilerService::NewStub(grpc::CreateChannel(server_->address(), Tls("client")));
  grpc::ClientContext context;
  auto reply = std::async(std::launch::async, [&] {
    tensorflow::ProfileResponse response;
    return stub->Profile(&context, Request(60'000, "named"), &response);
  });
  ASSERT_TRUE(AwaitState("recording"));
  EXPECT_THAT(sessions_->busy()->peer(), AllOf(HasSubstr("127.0.0.1:"), HasSubstr(" (operator)")));
  sessions_->Stop("named");
  EXPECT_TRUE(reply.get().ok());
}

TEST_F(CredentialsTest, AnAddressOnAllInterfacesIsServedWithCredentials) {
  Serve(Files(Cert("server.crt"), Cert("server.key"), "", Cert("token")), "0.0.0.0:0");
  const std::string address =
      "127.0.0.1" + server_->address().substr(server_->address().rfind(':'));
  EXPECT_TRUE(Call(Tls(), kDescribe, "Bearer " + Certificates::Get().Token(), address).ok());
  EXPECT_EQ(Call(Tls(), kDescribe, "", address).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(CredentialsTest, ATokenAloneGuardsLoopback) {
  const auto plain = grpc::InsecureChannelCredentials();
  const std::string good = "Bearer " + Certificates::Get().Token();
  for (const std::string& address : {std::string("127.0.0.1:0"), "unix:" + directory_ + "/s"}) {
    Serve(Files("", "", "", Cert("token")), address);
    for (const char* method : {kDescribe, kMonitor, kHealth, kUnknown}) {
      EXPECT_EQ(Call(plain, method, "").error_code(), grpc::StatusCode::UNAUTHENTICATED) << method;
      EXPECT_EQ(Call(plain, method, "Bearer wrong-wrong-wrong").error_code(),
                grpc::StatusCode::UNAUTHENTICATED);
    }
    EXPECT_TRUE(Call(plain, kDescribe, good).ok());
    EXPECT_TRUE(Call(plain, kHealth, good).ok());
    StopServer();
  }
}

TEST_F(CredentialsTest, AUnixSocketMayHaveTls) {
  Serve(Files(Cert("server.crt"), Cert("server.key"), Cert("ca.crt")), "unix:" + directory_ + "/s");
  EXPECT_TRUE(Call(Tls("client"), kDescribe, "").ok());
  EXPECT_FALSE(Call(Tls(), kDescribe, "").ok());
}

TEST_F(CredentialsTest, TheHolderOfAPortMayWantCredentials) {
  Serve(Files("", "", "", Cert("token")));
  const auto another = GrpcServer::Start(Options(server_->address()));
  EXPECT_THAT(std::string(another.status().message()), HasSubstr("requires credentials"));
}

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

  // Halfway: what is there fits nothing, so the old pair stays in force.
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
  EXPECT_EQ(asked.wait_for(std::chrono::seconds(20)), std::future_status::ready);
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
  EXPECT_EQ(asked.wait_for(std::chrono::seconds(20)), std::future_status::ready);
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
    return channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(1));
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

TEST_F(CredentialsTest, AWorkersCertificateIsNoCallers) {
  Serve(Files(Cert("server.crt"), Cert("server.key"), Cert("ca.crt")));
  EXPECT_TRUE(Call(Tls("client"), kDescribe, "").ok());
  EXPECT_EQ(Call(Tls("server"), kDescribe, "").error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(CredentialsTest, OnlyAllowedNamesCall) {
  CredentialFiles files = Files(Cert("server.crt"), Cert("server.key"), Cert("ca.crt"));
  files.tls_allowed_names = "alice, operator";
  Serve(files);
  EXPECT_TRUE(Call(Tls("client"), kDescribe, "").ok());
  StopServer();
  files.tls_allowed_names = "alice,oper,operator2";
  Serve(files);
  for (const char* method : {kDescribe, kMonitor, kHealth, kUnknown, kUnknownMethod}) {
    const grpc::Status status = Call(Tls("client"), method, "");
    EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED) << method;
    EXPECT_THAT(status.error_message(), HasSubstr("JOBSCOPE_TLS_ALLOWED_NAMES"));
    EXPECT_THAT(status.error_message(), Not(HasSubstr("alice")));
  }
}

TEST_F(CredentialsTest, AllowedNamesNeedCertificatesOfCallers) {
  CredentialFiles files = Files(Cert("server.crt"), Cert("server.key"), "", Cert("token"));
  files.tls_allowed_names = "alice";
  EXPECT_THAT(Refused(files), AllOf(HasSubstr("tls_allowed_names"), HasSubstr("JOBSCOPE_TLS_CA")));
  files = Files(Cert("server.crt"), Cert("server.key"), Cert("ca.crt"));
  files.tls_allowed_names = "alice,,bob";
  EXPECT_THAT(Refused(files), HasSubstr("an empty name"));
}

}  // namespace
}  // namespace jobscope
