// SPDX-License-Identifier: Apache-2.0
//
// Certificates, keys and tokens, from the files that settings name. The same rules for workers and
// for the client; whatever is wrong is found here, before anybody listens or dials.
#ifndef COMMON_CREDENTIALS_CREDENTIAL_FILES_H_
#define COMMON_CREDENTIALS_CREDENTIAL_FILES_H_

#include <sys/stat.h>
#include <time.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace jobscope {

// A file, and how people gave it: messages name both. An empty path: not given.
struct FileSetting {
  std::string path;
  std::string setting;  // "JOBSCOPE_TLS_KEY", "options.tls_key", "--tls_key"
  bool given() const { return !path.empty(); }
};

// What tells that a file has been replaced or written to, its links followed: the time is that of
// the last change of any kind, so also of a write of the same size, a chmod, a rename onto it.
struct FileVersion {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  mode_t mode = 0;
  timespec changed = {};
  bool operator==(const FileVersion& other) const;
};
// All zero: there is no such file.
FileVersion VersionOf(const FileSetting& file);

enum class CertificateUse { kServer, kClient };

struct CertificatePair {
  std::string certificate_pem;  // the chain, leaf first
  std::string key_pem;
};

// All of these read small regular files and never wait for a writer. INVALID_ARGUMENT names the
// setting, the path and the remedy.

// Certificate and key: both given; the key fits the chain's first certificate, which is valid now
// and meant for `use`; the key has no passphrase and is not open to everybody on the host.
absl::StatusOr<CertificatePair> ReadCertificatePair(const FileSetting& certificate,
                                                    const FileSetting& key, CertificateUse use);

// The certificates of one or more CAs, PEM, in one file. Those that have expired may be among them,
// as long as one has not.
absl::StatusOr<std::string> ReadAuthorities(const FileSetting& authorities);

// A token: one line of 16 to 1,024 visible ASCII characters, without blanks. The file is not open
// to everybody on the host.
absl::StatusOr<std::string> ReadToken(const FileSetting& token);

inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 1024;

// Whether it could be a token; INVALID_ARGUMENT tells why not, as the end of a sentence.
absl::Status CheckToken(absl::string_view token);

}  // namespace jobscope

#endif  // COMMON_CREDENTIALS_CREDENTIAL_FILES_H_
