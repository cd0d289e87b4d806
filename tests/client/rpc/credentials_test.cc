// SPDX-License-Identifier: Apache-2.0
//
// Tests credentials of the client: which are refused before any worker is contacted.
#include "client/rpc/credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/client/credential_flags.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string WhyNot(const CredentialFlags& flags, const Environment& environment = {}) {
  const auto credentials = Load(flags, environment);
  EXPECT_EQ(credentials.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(credentials.status().message());
}

TEST(ClientCredentials, FaultsAreNamedBeforeAnybodyIsDialled) {
  CredentialFlags flags;
  flags.tls_ca = "/absent/ca";
  EXPECT_THAT(WhyNot(flags), AllOf(HasSubstr("--tls_ca=/absent/ca"), HasSubstr("No such file")));
  flags = Tls();
  flags.tls_cert = Cert("client.crt");
  EXPECT_THAT(WhyNot(flags),
              AllOf(HasSubstr("--tls_cert="), HasSubstr("--tls_key (JOBSCOPE_TLS_KEY) is not")));
  flags.tls_key = Cert("server.key");
  EXPECT_THAT(WhyNot(flags),
              AllOf(HasSubstr("--tls_key="), HasSubstr("does not match the certificate")));
  EXPECT_THAT(WhyNot(Tls("expired")),
              AllOf(HasSubstr("--tls_cert="), HasSubstr("has expired, at")));
  EXPECT_THAT(WhyNot(Tls("wrong_host")), HasSubstr("not meant for a TLS client"));
  flags = Tls("client");
  flags.tls_ca.reset();
  EXPECT_THAT(WhyNot(flags),
              AllOf(HasSubstr("--tls_cert="), HasSubstr("--tls_ca (JOBSCOPE_TLS_CA)")));
  flags = {};
  flags.tls_server_name = "x";
  EXPECT_THAT(WhyNot(flags), AllOf(HasSubstr("--tls_server_name=x"), HasSubstr("--tls_ca")));
  flags = {};
  flags.token_file = Cert("ca.crt");  // open to everybody
  EXPECT_THAT(WhyNot(flags), AllOf(HasSubstr("--token_file="), HasSubstr("chmod 600")));
  EXPECT_THAT(WhyNot({}, {{"JOBSCOPE_TLS_CA", "/absent/ca"}}),
              HasSubstr("JOBSCOPE_TLS_CA=/absent/ca"));
}

TEST(ClientCredentials, FlagsWinOverTheEnvironment) {
  const Environment environment = {{"JOBSCOPE_TLS_CA", Cert("ca.crt")},
                                   {"JOBSCOPE_TLS_CERT", Cert("client.crt")},
                                   {"JOBSCOPE_TLS_KEY", Cert("client.key")},
                                   {"JOBSCOPE_TOKEN_FILE", Cert("token")}};
  auto credentials = Load({}, environment);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_EQ((*credentials)->authorities_name(), "JOBSCOPE_TLS_CA=" + Cert("ca.crt"));
  EXPECT_TRUE((*credentials)->has_certificate());
  credentials = Load(Tls("", "other_ca"), environment);
  ASSERT_TRUE(credentials.ok());
  EXPECT_EQ((*credentials)->authorities_name(), "--tls_ca=" + Cert("other_ca.crt"));
  CredentialFlags none;
  none.tls_ca = none.tls_cert = none.tls_key = none.token_file = "none";
  credentials = Load(none, environment);
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  EXPECT_FALSE((*credentials)->tls());
  EXPECT_FALSE((*credentials)->has_certificate());
}

TEST(ClientCredentials, ATokenDoesNotCrossANetworkInClearText) {
  CredentialFlags flags;
  flags.token_file = Cert("token");
  const auto plain = *Load(flags);
  std::vector<Endpoint> own;
  for (const char* address : {"127.0.0.1:1", "[::1]:1", "localhost:1", "unix:/s"}) {
    own.push_back(*ParseEndpoint(address));
  }
  EXPECT_TRUE(plain->CheckReach(own).ok());
  const absl::Status status =
      plain->CheckReach({*ParseEndpoint("127.0.0.1:1"), *ParseEndpoint("w7:6009")});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("--token_file="), HasSubstr("w7:6009"),
                                                   HasSubstr("clear text"), HasSubstr("--tls_ca")));
  flags = Tls();
  flags.token_file = Cert("token");
  EXPECT_TRUE((*Load(flags))->CheckReach({*ParseEndpoint("w7:6009")}).ok());
}

}  // namespace
}  // namespace jobscope
