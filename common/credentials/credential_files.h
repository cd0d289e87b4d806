// SPDX-License-Identifier: Apache-2.0
//
// Reads certificates, keys and tokens from the files that settings name. The same rules hold for
// workers and the client; errors show here, before anybody listens or connects.
#ifndef COMMON_CREDENTIALS_CREDENTIAL_FILES_H_
#define COMMON_CREDENTIALS_CREDENTIAL_FILES_H_

#include <sys/stat.h>
#include <time.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace jobscope {

// Names a file and the setting it came from: messages name both. An empty path means not set.
struct FileSetting {
  std::string path;
  std::string setting;  // "JOBSCOPE_TLS_KEY", "options.tls_key", "--tls_key"
  bool given() const { return !path.empty(); }
};

// Identifies the version of a file, following links. The time is that of the last change of any
// kind: also of a write of the same size, a chmod, or a rename onto the file.
struct FileVersion {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size = 0;
  mode_t mode = 0;
  timespec changed = {};
  bool operator==(const FileVersion& other) const;
};
// Returns all zeros if there is no such file.
FileVersion VersionOf(const FileSetting& file);

enum class CertificateUse { kServer, kClient };

struct CertificatePair {
  std::string certificate_pem;  // the chain, leaf first
  std::string key_pem;
};

// The functions below read small regular files and never wait for a writer. Errors are
// INVALID_ARGUMENT and name the setting, the path and the remedy.

// Reads a certificate and its key; both must be set. The key must match the chain's first
// certificate, which must be valid now and allow `use`; the key must have no passphrase and must
// not be accessible to everybody on the host.
absl::StatusOr<CertificatePair> ReadCertificatePair(const FileSetting& certificate,
                                                    const FileSetting& key, CertificateUse use);

// Returns OK if the first certificate of a PEM text has not expired. UNAUTHENTICATED gives the
// reason, as the end of a sentence about "the certificate".
absl::Status CheckNotExpired(absl::string_view certificate_pem);

// Reads the PEM certificates of one or more CAs from one file. Some may have expired, but not all.
absl::StatusOr<std::string> ReadAuthorities(const FileSetting& authorities);

// Reads a token: one line of 16 to 1,024 visible ASCII characters, without blanks. The file must
// not be accessible to everybody on the host.
absl::StatusOr<std::string> ReadToken(const FileSetting& token);

inline constexpr size_t kMinTokenBytes = 16;
inline constexpr size_t kMaxTokenBytes = 1024;

// Checks that a text could be a token. INVALID_ARGUMENT gives the reason, as the end of a sentence.
absl::Status CheckToken(absl::string_view token);

}  // namespace jobscope

#endif  // COMMON_CREDENTIALS_CREDENTIAL_FILES_H_
