// SPDX-License-Identifier: Apache-2.0
//
// Tests the text of the table for each kind of fault in credentials, against gRPC servers on real
// sockets.
#include "client/diagnosis/diagnoser.h"

#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/diagnosis/tls_diagnosis.h"
#include "client/rpc/call_threads.h"
#include "client/rpc/dial.h"
#include "client/rpc/unary_calls.h"
#include "tests/client/credential_flags.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A gRPC server without services: a client can reach it, and no more.
class Server {
 public:
  explicit Server(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
  }
  ~Server() { server_->Shutdown(); }
  Endpoint endpoint(const std::string& host = "127.0.0.1") const {
    return *ParseEndpoint(absl::StrCat(host, ":", port_));
  }

 private:
  grpc::CallbackGenericService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

std::shared_ptr<grpc::ServerCredentials> ServerTls(const std::string& name, bool mutual = false) {
  grpc::SslServerCredentialsOptions options(
      mutual ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
             : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_key_cert_pairs.push_back(
      {Certificates::Get().Read(name + ".key"), Certificates::Get().Read(name + ".crt")});
  options.pem_root_certs = Certificates::Get().Read("ca.crt");
  return grpc::SslServerCredentials(options);
}

// Returns what the client finally says about a worker that it asks for its identity.
grpc::Status Ask(const Endpoint& endpoint, const CredentialFlags& flags) {
  const auto credentials = Load(flags);
  EXPECT_TRUE(credentials.ok()) << credentials.status();
  DialOptions options;
  options.credentials = *credentials;
  Diagnoser diagnoser(*credentials);
  CallThreads threads;
  UnaryCalls calls(Dial(endpoint, options), &threads);
  std::promise<grpc::Status> explained;
  calls.Describe(absl::Minutes(1), [&](const grpc::Status& status, const v1::DescribeResponse&) {
    diagnoser.Explain(endpoint, status,
                      [&explained](grpc::Status cause) { explained.set_value(std::move(cause)); });
  });
  return explained.get_future().get();
}

void ExpectCause(const Endpoint& endpoint, const CredentialFlags& flags,
                 const std::vector<std::string>& parts) {
  const grpc::Status status = Ask(endpoint, flags);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  for (const std::string& part : parts) EXPECT_THAT(status.error_message(), HasSubstr(part));
}

// UNIMPLEMENTED: it was reached, and has no such service.
void ExpectReached(const Endpoint& endpoint, const CredentialFlags& flags) {
  const grpc::Status status = Ask(endpoint, flags);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
}

TEST(Diagnosis, WorksWhereNothingIsWrong) {
  const Server tls(ServerTls("server"));
  ExpectReached(tls.endpoint(), Tls());
  ExpectReached(tls.endpoint("localhost"), Tls());
  ExpectReached(tls.endpoint(), Tls("client"));
  const Server mutual(ServerTls("server", true));
  ExpectReached(mutual.endpoint(), Tls("client"));
  const Server plain(grpc::InsecureServerCredentials());
  ExpectReached(plain.endpoint(), {});
  EXPECT_THAT(DiagnoseConnection(mutual.endpoint(), Load(Tls("client"))->get(), absl::Seconds(5)),
              IsEmpty());
  EXPECT_THAT(DiagnoseConnection(plain.endpoint(), nullptr, absl::Milliseconds(200)), IsEmpty());
}

TEST(Diagnosis, ExpiredCertificate) {
  const Server server(ServerTls("expired"));
  ExpectCause(server.endpoint(), Tls(), {"the worker's certificate has expired, at 20", "renew"});
}

TEST(Diagnosis, CertificateNotYetValid) {
  const Server server(ServerTls("not_yet_valid"));
  ExpectCause(server.endpoint(), Tls(), {"not valid before 20", "clock says"});
}

TEST(Diagnosis, CertificateOfAnotherHost) {
  const Server server(ServerTls("wrong_host"));
  ExpectCause(server.endpoint(), Tls(),
              {"is for elsewhere.example, 192.0.2.7, not for 127.0.0.1", "--tls_server_name"});
  CredentialFlags named = Tls();
  named.tls_server_name = "elsewhere.example";
  ExpectReached(server.endpoint(), named);
  named.tls_server_name = "wrong.example";
  ExpectCause(server.endpoint(), named, {"not for wrong.example"});
}

TEST(Diagnosis, UnknownCa) {
  const Server server(ServerTls("other_server"));
  ExpectCause(server.endpoint(), Tls(), {"signed by \"another CA\"", "not in --tls_ca=", "ca.crt"});
}

TEST(Diagnosis, WorkerWantsACertificate) {
  const Server server(ServerTls("server", true));
  ExpectCause(server.endpoint(), Tls(),
              {"requires a client certificate", "--tls_cert and --tls_key"});
  ExpectCause(server.endpoint(), Tls("other_client"),
              {"does not accept our certificate", "signed by \"another CA\"", "jobscope trial CA"});
}

TEST(Diagnosis, TwoFaultsAreBothReported) {
  const Server server(ServerTls("expired", true));
  ExpectCause(server.endpoint(), Tls(), {"has expired", "requires a client certificate"});
}

TEST(Diagnosis, OneSideSpeaksTls) {
  const Server tls(ServerTls("server"));
  ExpectCause(tls.endpoint(), {}, {"the worker speaks TLS", "--tls_ca"});
  CredentialFlags token;
  token.token_file = Cert("token");
  ExpectCause(tls.endpoint(), token, {"the worker speaks TLS", "--tls_ca"});
  const Server plain(grpc::InsecureServerCredentials());
  ExpectCause(plain.endpoint(), Tls(),
              {"the worker does not speak TLS", "JOBSCOPE_TLS_CERT", "--tls_ca=none"});
}

// Accepts connections and sends nothing, or closes each at once.
class Mute {
 public:
  explicit Mute(bool closes) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    if (closes) {
      closer_ = std::thread([this] {
        for (int peer = 0; (peer = accept(fd_, nullptr, nullptr)) >= 0;) close(peer);
      });
    }
  }
  ~Mute() {
    shutdown(fd_, SHUT_RDWR);
    if (closer_.joinable()) closer_.join();
    close(fd_);
  }
  Endpoint endpoint() const { return *ParseEndpoint(absl::StrCat("127.0.0.1:", port_)); }

 private:
  const int fd_;
  int port_ = 0;
  std::thread closer_;
};

TEST(Diagnosis, SilenceTakesItsTimeAndNoMore) {
  const Mute mute(/*closes=*/false);
  const absl::Time start = absl::Now();
  EXPECT_THAT(DiagnoseConnection(mute.endpoint(), Load(Tls())->get(), absl::Milliseconds(100)),
              IsEmpty());
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

TEST(Diagnosis, AClosedConnectionIsNotBlamedOnCredentials) {
  const Mute closing(/*closes=*/true);
  for (const CredentialFlags& flags : {CredentialFlags(), Tls()}) {
    const grpc::Status status = Ask(closing.endpoint(), flags);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  }
  Endpoint nobody = closing.endpoint();
  {
    const Mute gone(/*closes=*/false);
    nobody = gone.endpoint();
  }
  EXPECT_THAT(Ask(nobody, Tls()).error_message(), HasSubstr("refused"));
}

}  // namespace
}  // namespace jobscope
