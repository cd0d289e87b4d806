// SPDX-License-Identifier: Apache-2.0
//
// The token that callers must present, as its file has it now.
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
// The file is looked at again when a token is presented, at most once a second, so that a token can
// be replaced (and one that has leaked ends) without a restart, and an idle worker does nothing. A
// file that has gone, or that holds no good token, lets nobody in: a capture that is refused harms
// no job.
class TokenCheck {
 public:
  // INVALID_ARGUMENT: as ReadToken.
  static absl::StatusOr<std::shared_ptr<TokenCheck>> Create(const FileSetting& file);

  // In constant time with respect to the token. One small file is read at most once a second.
  bool Accepts(absl::string_view presented);

 private:
  using Digest = std::array<unsigned char, 32>;

  explicit TokenCheck(FileSetting file) : file_(std::move(file)) {}
  static Digest DigestOf(absl::string_view text);
  // Reads the file, which is of `version`; without a good token, nobody is let in.
  absl::Status Load(const FileVersion& version);
  // One thread at a time, and without the lock: a file system that hangs holds up the one caller
  // that looks, while the others are judged by what is known.
  void LookAgain();

  const FileSetting file_;
  absl::Mutex mutex_;
  FileVersion version_ ABSL_GUARDED_BY(mutex_);
  absl::Time looked_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool looking_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<Digest> digest_ ABSL_GUARDED_BY(mutex_);  // nothing: there is no good token
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_TOKEN_CHECK_H_
