// SPDX-License-Identifier: Apache-2.0
//
// Tests which credentials of a worker are refused at the start.
#include "server/security/credentials.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/certificates.h"
#include "tests/server/security/credentials_fixture.h"

namespace jobscope {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
