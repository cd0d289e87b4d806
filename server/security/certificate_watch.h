// SPDX-License-Identifier: Apache-2.0
//
// Keeps the worker's certificate, its key and the CAs of callers up to date with their files.
#ifndef SERVER_SECURITY_CERTIFICATE_WATCH_H_
#define SERVER_SECURITY_CERTIFICATE_WATCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/credentials/credential_files.h"
#include "server/security/background_check.h"

namespace jobscope {

// Checks the files when a caller connects (BackgroundCheck), so that short-lived certificates can
// be replaced without a restart. If the files are invalid, or do not match each other (a
// replacement in progress), the old content stays in force and a warning is logged. Thread-safe.
class CertificateWatch : public std::enable_shared_from_this<CertificateWatch> {
 public:
  struct Files {
    FileSetting certificate;
    FileSetting key;
    FileSetting authorities;  // optional: without it callers are asked for no certificate
  };
  struct Content {
    uint64_t version = 0;  // increases, from 1
    CertificatePair pair;
    std::string authorities_pem;
  };

  using GetVersion = std::function<FileVersion(const FileSetting&)>;
  // Returns INVALID_ARGUMENT like ReadCertificatePair and ReadAuthorities. `version_of` replaces
  // the check of a file in tests.
  static absl::StatusOr<std::shared_ptr<CertificateWatch>> Create(
      Files files, GetVersion version_of = &VersionOf);

  bool asks_callers() const { return files_.authorities.given(); }

  // Returns null if nothing newer than that version is known. Unless the file system hangs, the
  // content is at most a second old.
  std::shared_ptr<const Content> NewerThan(uint64_t version);

 private:
  struct Versions {
    FileVersion certificate, key, authorities;
    bool operator==(const Versions& other) const;
  };

  CertificateWatch(Files files, GetVersion version_of)
      : files_(std::move(files)), version_of_(std::move(version_of)) {}
  Versions LookAtFiles() const;
  // Run on one thread at a time, without the lock.
  absl::Status Load();
  void LoadIfChanged();

  const Files files_;
  const GetVersion version_of_;
  // Used by the check in progress only. Files that could not be loaded are read again by every
  // check: the process may have had no descriptor left, or the certificate may become valid.
  Versions seen_;
  bool loaded_ = false;
  BackgroundCheck check_{"jobscope-certs"};
  absl::Mutex mutex_;
  std::shared_ptr<const Content> content_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_CERTIFICATE_WATCH_H_
