// SPDX-License-Identifier: Apache-2.0
//
// Tests which callers the credentials of a worker admit, on real sockets.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <future>
#include <string>

#include "absl/strings/match.h"
#include "tests/certificates.h"
#include "tests/server/security/credentials_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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
  // The holder has a second to answer, and may not be run.
  EXPECT_TRUE(Eventually([this] {
    const auto another = GrpcServer::Start(Options(server_->address()));
    return absl::StrContains(another.status().message(), "requires credentials");
  }));
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

}  // namespace
}  // namespace jobscope
