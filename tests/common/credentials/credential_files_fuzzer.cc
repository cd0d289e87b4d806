// SPDX-License-Identifier: Apache-2.0
//
// Files of certificates, keys and tokens with any content and any mode: what is accepted keeps the
// rules, what is not names the setting. The input describes two files. Each is a sequence of raw
// bytes, of certificates with any times, and of keys; a fuzzer cannot make up those.
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/credentials/credential_files.h"
#include "common/log/log.h"
#include "server/security/token_check.h"
#include "tests/fuzz_input.h"
#include "tests/temporary_directory.h"

namespace jobscope {
namespace {

std::string TextOf(BIO* bio) {
  char* text = nullptr;
  const auto size = static_cast<size_t>(BIO_get_mem_data(bio, &text));
  std::string copy(text, size);
  BIO_free(bio);
  return copy;
}

EVP_PKEY* Key(bool other) {
  static EVP_PKEY* const keys[] = {EVP_EC_gen("P-256"), EVP_EC_gen("P-256")};
  return keys[other ? 1 : 0];
}

std::string KeyPem(bool other, bool encrypted) {
  static constexpr char kPassphrase[] = "passphrase";
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PKCS8PrivateKey(bio, Key(other), encrypted ? EVP_aes_128_cbc() : nullptr,
                                encrypted ? kPassphrase : nullptr, encrypted ? 10 : 0, nullptr,
                                nullptr);
  return TextOf(bio);
}

// A time in the past or the future, or one that is none.
void SetTime(ASN1_TIME* time, FuzzInput* input) {
  const auto how = input->Take<uint8_t>();
  if (how < 8) {
    constexpr long kSeconds[] = {-100'000'000, -10, 10, 100'000'000};
    X509_gmtime_adj(time, kSeconds[how % 4]);
    return;
  }
  const std::string bytes = input->TakeBytes(how % 24);
  ASN1_STRING_set(time, bytes.data(), static_cast<int>(bytes.size()));
  if ((how & 128) != 0) time->type = V_ASN1_GENERALIZEDTIME;
}

std::string CertificatePem(FuzzInput* input) {
  static constexpr const char* kUses[] = {nullptr, "serverAuth", "clientAuth",
                                          "serverAuth,clientAuth"};
  X509* const certificate = X509_new();
  X509_set_version(certificate, 2);
  SetTime(X509_getm_notBefore(certificate), input);
  SetTime(X509_getm_notAfter(certificate), input);
  const auto how = input->Take<uint8_t>();
  X509_set_pubkey(certificate, Key((how & 1) != 0));
  if (const char* const uses = kUses[how >> 1 & 3]; uses != nullptr) {
    X509_EXTENSION* const use = X509V3_EXT_conf_nid(nullptr, nullptr, NID_ext_key_usage, uses);
    X509_add_ext(certificate, use, -1);
    X509_EXTENSION_free(use);
  }
  X509_sign(certificate, Key(false), EVP_sha256());
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  X509_free(certificate);
  return TextOf(bio);
}

std::string Content(FuzzInput* input) {
  static const std::string encrypted = KeyPem(false, true);
  std::string text;
  for (int pieces = input->Take<uint8_t>() % 8; pieces > 0; --pieces) {
    switch (const auto kind = input->Take<uint8_t>(); kind % 8) {
      case 0:
        text += CertificatePem(input);
        break;
      case 1:
        text += KeyPem((kind & 8) != 0, false);
        break;
      case 2:
        text += encrypted;
        break;
      case 3:  // of some other kind, or damaged
        text += "-----BEGIN " + input->TakeBytes8() + "-----\n" + input->TakeBytes8() +
                "\n-----END CERTIFICATE-----\n";
        break;
      default:
        text += input->TakeBytes16();
    }
  }
  return text;
}

// A file of any mode; sometimes none, something else, or one that is too large.
FileSetting MakeFile(const std::string& path, const std::string& content, uint8_t how) {
  constexpr mode_t kModes[] = {0600, 0640, 0644, 0604, 0602, 0646, 0601, 0400};
  unlink(path.c_str());
  rmdir(path.c_str());
  switch (how >> 3) {
    case 30:
      Require(mkdir(path.c_str(), 0700) == 0);
      break;
    case 29:
      Require(mkfifo(path.c_str(), 0600) == 0);
      break;
    case 28:
      return {"", "--setting"};
    case 27:
      break;
    default: {
      const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      Require(fd >= 0 &&
              write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
      if (how >> 3 == 31) Require(ftruncate(fd, (4 << 20) + 1) == 0);
      Require(fchmod(fd, kModes[how & 7]) == 0);
      close(fd);
    }
  }
  return {path, "--setting"};
}

void CheckRefusal(const absl::Status& status) {
  Require(status.code() == absl::StatusCode::kInvalidArgument);
  Require(absl::StrContains(status.message(), "--setting"));
}

// Only the token that the file has, or had until the last check, is let in.
void CheckReplacedToken(const FileSetting& file, const std::string& content, uint8_t how,
                        const std::string& token, TokenCheck* check) {
  (void)MakeFile(file.path, content, how);
  const absl::StatusOr<std::string> renewed = ReadToken(file);
  for (const std::string& presented :
       {token, renewed.value_or(token), content, token + "x", std::string()}) {
    if (!check->Accepts(presented)) continue;
    Require(presented == token || (renewed.ok() && presented == *renewed));
  }
}

}  // namespace
}  // namespace jobscope

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace jobscope;  // NOLINT(google-build-using-namespace): one function
  static const TemporaryDirectory directory;
  SetLogLevel(LogLevel::kOff);
  FuzzInput input(data, size);
  const auto how = input.Take<uint8_t>();
  const auto key_how = input.Take<uint8_t>();
  const std::string content = Content(&input);
  const FileSetting file = MakeFile(directory.path() + "/file", content, how);
  Require(VersionOf(file) == VersionOf(file));

  // Sees a new version of the file each time.
  const auto version_of = [version = 0](const FileSetting&) mutable {
    FileVersion next;
    next.size = ++version;
    return next;
  };
  const auto check = TokenCheck::Create(file, version_of);
  const absl::StatusOr<std::string> token = ReadToken(file);
  Require(check.ok() == token.ok());
  if (token.ok()) {
    Require(token->size() >= kMinTokenBytes && token->size() <= kMaxTokenBytes);
    Require(CheckToken(*token).ok());
    for (const char c : *token) Require(c > ' ' && c <= '~');
  } else {
    CheckRefusal(token.status());
  }
  (void)CheckToken(content).ok();
  const absl::StatusOr<std::string> authorities = ReadAuthorities(file);
  if (!authorities.ok()) CheckRefusal(authorities.status());

  const std::string key_content = Content(&input);
  const FileSetting key = MakeFile(directory.path() + "/key", key_content, key_how);
  for (const CertificateUse use : {CertificateUse::kServer, CertificateUse::kClient}) {
    const auto pair = ReadCertificatePair(file, key, use);
    if (!pair.ok()) {
      CheckRefusal(pair.status());
      continue;
    }
    Require(absl::StrContains(pair->certificate_pem, "-----BEGIN"));
    Require(absl::StrContains(pair->key_pem, "PRIVATE KEY-----"));
  }
  // The token's file is replaced by the other one.
  if (token.ok()) CheckReplacedToken(file, key_content, key_how, *token, check->get());
  return 0;
}
