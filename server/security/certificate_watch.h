// SPDX-License-Identifier: Apache-2.0
//
// Keeps the worker's certificate, its key and the CAs of callers up to date with their files.
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

// Checks the files when a caller connects, at most once a second, so that short-lived certificates
// can be replaced without a restart, and an idle worker does nothing: no thread, no timer. If the
// files are invalid, or do not match each other (a replacement in progress), the old content stays
// in force and a warning is logged. Thread-safe.
class CertificateWatch {
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

  // Returns INVALID_ARGUMENT like ReadCertificatePair and ReadAuthorities.
  static absl::StatusOr<std::shared_ptr<CertificateWatch>> Create(Files files);

  bool asks_callers() const { return files_.authorities.given(); }

  // Returns null if nothing is newer than that version. Calls stat three times, at most once a
  // second, and reads small files that have changed.
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
