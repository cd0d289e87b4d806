// SPDX-License-Identifier: Apache-2.0
//
// The worker's certificate, its key and the CAs of callers, as their files have them now.
#ifndef SERVER_SECURITY_CERTIFICATE_WATCH_H_
#define SERVER_SECURITY_CERTIFICATE_WATCH_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/credentials/credential_files.h"

namespace jobscope {

// The files are looked at again when somebody connects, at most once a second, so that certificates
// of a short life can be replaced without a restart, and an idle worker does nothing: no thread, no
// timer. Files that are not good, or do not fit each other (a replacement is halfway through),
// leave the old ones in force, and a warning says so. Thread-safe.
class CertificateWatch {
 public:
  struct Files {
    FileSetting certificate;
    FileSetting key;
    FileSetting authorities;  // may not be given: callers are asked for no certificate
  };
  struct Content {
    uint64_t version = 0;  // rises; from 1
    CertificatePair pair;
    std::string authorities_pem;
  };

  // INVALID_ARGUMENT: as ReadCertificatePair, ReadAuthorities.
  static absl::StatusOr<std::shared_ptr<CertificateWatch>> Create(Files files);

  bool asks_callers() const { return files_.authorities.given(); }

  // Null: nothing newer than that version. Three calls of stat, at most once a second; small files
  // are read where they have changed.
  std::shared_ptr<const Content> NewerThan(uint64_t version);

 private:
  struct Versions {
    FileVersion certificate, key, authorities;
    bool operator==(const Versions& other) const;
  };

  explicit CertificateWatch(Files files) : files_(std::move(files)) {}
  Versions LookAtFiles() const;
  absl::Status Load() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoadIfChanged() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Files files_;
  absl::Mutex mutex_;
  Versions seen_ ABSL_GUARDED_BY(mutex_);
  uint64_t looked_ns_ ABSL_GUARDED_BY(mutex_) = 0;  // on MONOTONIC
  std::shared_ptr<const Content> content_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_CERTIFICATE_WATCH_H_
