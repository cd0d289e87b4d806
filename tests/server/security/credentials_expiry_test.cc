// SPDX-License-Identifier: Apache-2.0
//
// Certificates of callers that expire after the TLS handshake.
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/credentials/credential_files.h"
#include "jobscope/v1/profiler.grpc.pb.h"
#include "tests/certificates.h"
#include "tests/server/security/credentials_fixture.h"

namespace jobscope {
namespace {

using ::testing::HasSubstr;

// Returns the operator's certificate with another end, signed again by the CA. Its key is the same.
std::string OperatorCertificateUntil(absl::Time ends) {
  const std::string old_pem = Certificates::Get().Read("client.crt");
  const std::string ca_key_pem = Certificates::Get().Read("ca.key");
  BIO* const old_bio = BIO_new_mem_buf(old_pem.data(), static_cast<int>(old_pem.size()));
  BIO* const key_bio = BIO_new_mem_buf(ca_key_pem.data(), static_cast<int>(ca_key_pem.size()));
  X509* const certificate = PEM_read_bio_X509(old_bio, nullptr, nullptr, nullptr);
  EVP_PKEY* const ca_key = PEM_read_bio_PrivateKey(key_bio, nullptr, nullptr, nullptr);
  ASN1_TIME* const end = ASN1_TIME_set(nullptr, absl::ToTimeT(ends));
  BIO* const new_bio = BIO_new(BIO_s_mem());
  const bool made = X509_set1_notAfter(certificate, end) == 1 &&
                    X509_sign(certificate, ca_key, EVP_sha256()) > 0 &&
                    PEM_write_bio_X509(new_bio, certificate) == 1;
  EXPECT_TRUE(made);
  char* text = nullptr;
  const long size = BIO_get_mem_data(new_bio, &text);
  std::string pem(text, static_cast<size_t>(size));
  for (BIO* const bio : {old_bio, key_bio, new_bio}) BIO_free(bio);
  X509_free(certificate);
  EVP_PKEY_free(ca_key);
  ASN1_TIME_free(end);
  return pem;
}

grpc::Status DescribeOn(const std::shared_ptr<grpc::Channel>& channel) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  v1::DescribeResponse response;
  return v1::Profiler::NewStub(channel)->Describe(&context, v1::DescribeRequest(), &response);
}

// TLS checks a certificate once, at the handshake.
TEST_F(CredentialsTest, ACallersCertificateThatExpiresWhileConnectedIsRefused) {
  Serve(Files(Cert("server.crt"), Cert("server.key"), Cert("ca.crt")));
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = Certificates::Get().Read("ca.crt");
  options.pem_private_key = Certificates::Get().Read("client.key");
  grpc::Status before;
  // Longer where the handshake did not end in time. A connection without a call lasts for a minute.
  for (int valid_s = 3; valid_s < 30 && (valid_s == 3 || !before.ok()); valid_s *= 2) {
    const absl::Time ends = absl::FromTimeT(absl::ToTimeT(absl::Now()) + valid_s);
    options.pem_cert_chain = OperatorCertificateUntil(ends);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel =
        grpc::CreateCustomChannel(server_->address(), grpc::SslCredentials(options), arguments);
    before = DescribeOn(channel);
    if (!before.ok()) continue;
    while (absl::Now() <= ends) absl::SleepFor(ends - absl::Now() + absl::Milliseconds(10));
    const grpc::Status after = DescribeOn(channel);
    EXPECT_EQ(after.error_code(), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_THAT(after.error_message(), HasSubstr("the caller's certificate has expired, at 2"));
  }
  EXPECT_TRUE(before.ok()) << before.error_message();
}

TEST(CheckNotExpired, ReadsTheFirstCertificate) {
  const Certificates& files = Certificates::Get();
  EXPECT_TRUE(CheckNotExpired(files.Read("client.crt")).ok());
  EXPECT_TRUE(CheckNotExpired(files.Read("client.crt") + files.Read("expired.crt")).ok());
  const absl::Status expired = CheckNotExpired(files.Read("expired.crt"));
  EXPECT_EQ(expired.code(), absl::StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(expired.message()), HasSubstr("has expired, at 2"));
  EXPECT_EQ(CheckNotExpired("").message(), "cannot be read");
}

}  // namespace
}  // namespace jobscope
