// SPDX-License-Identifier: Apache-2.0
#include "common/credentials/credential_files.h"

#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace jobscope {
namespace {

// Bounds a file; the CA bundle of a Linux distribution takes 0.2 MiB.
constexpr size_t kMaxFileBytes = 4 << 20;

enum class Openness { kPublic, kSecret };

struct X509Free {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using Certificate = std::unique_ptr<X509, X509Free>;

std::string Name(const FileSetting& file) { return absl::StrCat(file.setting, "=", file.path); }

absl::Status Bad(const FileSetting& file, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(Name(file), ": ", what));
}

absl::Status CheckMode(const FileSetting& file, mode_t mode, Openness openness) {
  if (openness == Openness::kSecret && (mode & 07) != 0) {
    // Group access is allowed: Kubernetes gives a secret to a non-root user this way.
    return Bad(file, absl::StrCat("everybody on this host may ", (mode & 04) != 0 ? "read" : "use",
                                  " this secret: chmod 600 it (or 640; a Kubernetes secret volume "
                                  "needs defaultMode: 0440)"));
  }
  if ((mode & 02) != 0) return Bad(file, "everybody on this host may write to it: chmod o-w it");
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadSmallFile(const FileSetting& file, Openness openness) {
  // Without O_NONBLOCK, opening a FIFO would block the start until somebody writes to it.
  const int fd = open(file.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) {
    const int error = errno;
    return Bad(file, absl::StrCat("cannot be read: ", strerror(error),
                                  error == EACCES ? ": run as its owner, or let your group read it"
                                                  : ": name an existing file"));
  }
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat info;
  if (fstat(fd, &info) != 0) return Bad(file, absl::StrCat("cannot be read: ", strerror(errno)));
  if (!S_ISREG(info.st_mode)) return Bad(file, "is not a regular file: name one");
  if (auto status = CheckMode(file, info.st_mode, openness); !status.ok()) return status;
  std::string text;
  char buffer[4096];
  while (true) {
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got == 0) break;
    if (got < 0) {
      if (errno == EINTR) continue;
      return Bad(file, absl::StrCat("cannot be read: ", strerror(errno)));
    }
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMaxFileBytes) return Bad(file, "is larger than 4 MiB: no PEM file is");
  }
  if (text.empty()) return Bad(file, "is empty");
  return text;
}

// Parses all certificates of a PEM text, in order.
std::vector<Certificate> ParseCertificates(absl::string_view pem) {
  std::vector<Certificate> certificates;
  BIO* const bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  if (bio == nullptr) return certificates;
  while (X509* const certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr)) {
    certificates.emplace_back(certificate);
  }
  BIO_free(bio);
  ERR_clear_error();  // end of text is an error too, and gRPC reads the same queue
  return certificates;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

std::string Date(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

absl::Status CheckCertificate(const FileSetting& file, X509* certificate, CertificateUse use) {
  const absl::Time now = absl::Now();
  const absl::Time ends = TimeOf(X509_get0_notAfter(certificate));
  if (ends <= now) {
    return Bad(file, absl::StrCat("the certificate has expired, at ", Date(ends), ": renew it"));
  }
  const absl::Time begins = TimeOf(X509_get0_notBefore(certificate));
  if (begins > now) {
    return Bad(file, absl::StrCat("the certificate is not valid before ", Date(begins),
                                  ", and this host's clock says ", Date(now)));
  }
  const bool server = use == CertificateUse::kServer;
  if (X509_check_purpose(certificate, server ? X509_PURPOSE_SSL_SERVER : X509_PURPOSE_SSL_CLIENT,
                         /*ca=*/0) != 1) {
    const absl::string_view role = server ? "server" : "client";
    return Bad(file, absl::StrCat("the certificate is not meant for a TLS ", role,
                                  ": its extendedKeyUsage must hold ", role, "Auth"));
  }
  return absl::OkStatus();
}

// Refuses to prompt for a passphrase, and notes that OpenSSL asked for one.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::Status CheckKey(const FileSetting& key, const std::string& key_pem,
                      const FileSetting& certificate_file, X509* certificate) {
  bool encrypted = false;
  BIO* const bio = BIO_new_mem_buf(key_pem.data(), static_cast<int>(key_pem.size()));
  EVP_PKEY* const parsed = PEM_read_bio_PrivateKey(bio, nullptr, &NoPassphrase, &encrypted);
  BIO_free(bio);
  const absl::Cleanup clean = [parsed] {
    EVP_PKEY_free(parsed);
    ERR_clear_error();
  };
  if (encrypted) {
    return Bad(
        key,
        "the key has a passphrase, which nobody can enter here: store it without (openssl pkey "
        "-in KEY -out NEWKEY), in a file of mode 600");
  }
  if (parsed == nullptr) return Bad(key, "holds no private key in PEM form");
  if (X509_check_private_key(certificate, parsed) != 1) {
    return Bad(key, absl::StrCat("the key does not match the certificate in ",
                                 Name(certificate_file), ": give a matching pair"));
  }
  return absl::OkStatus();
}

}  // namespace

bool FileVersion::operator==(const FileVersion& other) const {
  return device == other.device && inode == other.inode && size == other.size &&
         mode == other.mode && changed.tv_sec == other.changed.tv_sec &&
         changed.tv_nsec == other.changed.tv_nsec;
}

FileVersion VersionOf(const FileSetting& file) {
  struct stat info = {};
  if (!file.given() || stat(file.path.c_str(), &info) != 0) return FileVersion();
  return {info.st_dev, info.st_ino, info.st_size, info.st_mode, info.st_ctim};
}

absl::StatusOr<CertificatePair> ReadCertificatePair(const FileSetting& certificate,
                                                    const FileSetting& key, CertificateUse use) {
  if (certificate.given() != key.given()) {
    const FileSetting& given = certificate.given() ? certificate : key;
    const FileSetting& missing = certificate.given() ? key : certificate;
    return Bad(given, absl::StrCat("is given, but ", missing.setting,
                                   " is not: a certificate and its key go together"));
  }
  auto certificate_pem = ReadSmallFile(certificate, Openness::kPublic);
  if (!certificate_pem.ok()) return certificate_pem.status();
  auto key_pem = ReadSmallFile(key, Openness::kSecret);
  if (!key_pem.ok()) return key_pem.status();
  const std::vector<Certificate> chain = ParseCertificates(*certificate_pem);
  if (chain.empty()) return Bad(certificate, "holds no certificate in PEM form");
  auto status = CheckKey(key, *key_pem, certificate, chain.front().get());
  if (status.ok()) status = CheckCertificate(certificate, chain.front().get(), use);
  if (!status.ok()) return status;
  return CertificatePair{*std::move(certificate_pem), *std::move(key_pem)};
}

absl::Status CheckNotExpired(absl::string_view certificate_pem) {
  const std::vector<Certificate> chain = ParseCertificates(certificate_pem);
  if (chain.empty()) return absl::UnauthenticatedError("cannot be read");
  const absl::Time ends = TimeOf(X509_get0_notAfter(chain.front().get()));
  if (ends > absl::Now()) return absl::OkStatus();
  return absl::UnauthenticatedError(absl::StrCat("has expired, at ", Date(ends), ": renew it"));
}

absl::StatusOr<std::string> ReadAuthorities(const FileSetting& authorities) {
  auto pem = ReadSmallFile(authorities, Openness::kPublic);
  if (!pem.ok()) return pem.status();
  const std::vector<Certificate> certificates = ParseCertificates(*pem);
  if (certificates.empty()) return Bad(authorities, "holds no certificate in PEM form");
  absl::Time last = absl::InfinitePast();
  for (const Certificate& certificate : certificates) {
    last = std::max(last, TimeOf(X509_get0_notAfter(certificate.get())));
  }
  if (last <= absl::Now()) {
    return Bad(authorities,
               absl::StrCat("the CA's certificate has expired, at ", Date(last), ": renew it"));
  }
  return pem;
}

absl::Status CheckToken(absl::string_view token) {
  if (token.empty()) return absl::InvalidArgumentError("holds no token");
  for (const char c : token) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(
          "the token holds a blank, a line break or a character that is not visible ASCII: write "
          "one line, such as that of openssl rand -hex 32");
    }
  }
  if (token.size() < kMinTokenBytes || token.size() > kMaxTokenBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the token has ", token.size(), " characters: it must have ", kMinTokenBytes,
                     " to ", kMaxTokenBytes, ", such as those of openssl rand -hex 32"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadToken(const FileSetting& token) {
  const auto text = ReadSmallFile(token, Openness::kSecret);
  if (!text.ok()) return text.status();
  const absl::string_view line = absl::StripTrailingAsciiWhitespace(*text);
  if (auto status = CheckToken(line); !status.ok()) {
    return Bad(token, absl::string_view(status.message()));
  }
  return std::string(line);
}

}  // namespace jobscope
