// SPDX-License-Identifier: Apache-2.0
//
// Checks the token that callers must present against the current content of its file.
#ifndef SERVER_SECURITY_TOKEN_CHECK_H_
#define SERVER_SECURITY_TOKEN_CHECK_H_

#include <array>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/credentials/credential_files.h"

namespace jobscope {

// Holds a digest of the token, not the token. Thread-safe.
//
// Checks the file when a token is presented, at most once a second, so that a token can be replaced
// (and a leaked one invalidated) without a restart, and an idle worker does nothing. If the file is
// gone or holds no valid token, every caller is refused: a refused capture harms no job.
class TokenCheck {
 public:
  // Returns INVALID_ARGUMENT like ReadToken.
  static absl::StatusOr<std::shared_ptr<TokenCheck>> Create(const FileSetting& file);

  // Takes constant time with respect to the token. Reads one small file at most once a second.
  bool Accepts(absl::string_view presented);

 private:
  using Digest = std::array<unsigned char, 32>;

  explicit TokenCheck(FileSetting file) : file_(std::move(file)) {}
  static Digest DigestOf(absl::string_view text);
  // Reads the file, which has `version`; without a valid token every caller is refused.
  absl::Status Load(const FileVersion& version);
  // Runs on one thread at a time, without the lock: a hanging file system blocks only the caller
  // that checks; the others are judged by the known token.
  void LookAgain();

  const FileSetting file_;
  absl::Mutex mutex_;
  FileVersion version_ ABSL_GUARDED_BY(mutex_);
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Digest> digest_ ABSL_GUARDED_BY(mutex_);  // nullopt: there is no valid token
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_TOKEN_CHECK_H_
