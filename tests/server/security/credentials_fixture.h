// SPDX-License-Identifier: Apache-2.0
//
// Workers with credentials, and callers of them.
#ifndef TESTS_SERVER_SECURITY_CREDENTIALS_FIXTURE_H_
#define TESTS_SERVER_SECURITY_CREDENTIALS_FIXTURE_H_

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "server/security/credentials.h"
#include "tests/certificates.h"
#include "tests/server/service_fixture.h"

namespace jobscope {

inline std::string Cert(const std::string& name) { return Certificates::Get().Path(name); }

// As the environment would give them.
inline CredentialFiles Files(const std::string& certificate, const std::string& key,
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
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
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

inline constexpr char kDescribe[] = "/jobscope.v1.Profiler/Describe";
inline constexpr char kMonitor[] = "/tensorflow.ProfilerService/Monitor";
inline constexpr char kHealth[] = "/grpc.health.v1.Health/Check";
inline constexpr char kUnknown[] = "/no.such.Service/Method";
inline constexpr char kUnknownMethod[] = "/jobscope.v1.Profiler/NoSuchMethod";

}  // namespace jobscope

#endif  // TESTS_SERVER_SECURITY_CREDENTIALS_FIXTURE_H_
