// SPDX-License-Identifier: Apache-2.0
//
// Checks the token that callers must present against the current content of its file.
#ifndef SERVER_SECURITY_TOKEN_CHECK_H_
#define SERVER_SECURITY_TOKEN_CHECK_H_

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/credentials/credential_files.h"
#include "server/security/background_check.h"

namespace jobscope {

// Holds a digest of the token, not the token. Thread-safe.
//
// Checks the file when a token is presented (BackgroundCheck), so that a token can be replaced, and
// a leaked one invalidated, without a restart. If the file is gone or holds no valid token, every
// caller is refused: a refused capture harms no job. While the file system hangs, the known token
// is valid.
class TokenCheck : public std::enable_shared_from_this<TokenCheck> {
 public:
  using GetVersion = std::function<FileVersion(const FileSetting&)>;
  // Returns INVALID_ARGUMENT like ReadToken. `version_of` replaces the check of a file in tests.
  static absl::StatusOr<std::shared_ptr<TokenCheck>> Create(const FileSetting& file,
                                                            GetVersion version_of = &VersionOf);

  // Takes constant time with respect to the token.
  bool Accepts(absl::string_view presented);

 private:
  using Digest = std::array<unsigned char, 32>;

  TokenCheck(FileSetting file, GetVersion version_of)
      : file_(std::move(file)), version_of_(std::move(version_of)) {}
  static Digest DigestOf(absl::string_view text);
  // Run on one thread at a time, without the lock. Without a valid token every caller is refused.
  absl::Status Load();
  void LoadIfChanged();

  const FileSetting file_;
  const GetVersion version_of_;
  // Used by the check in progress only. A file that could not be loaded is read again by every
  // check: the process may have had no descriptor left.
  FileVersion seen_;
  bool loaded_ = false;
  BackgroundCheck check_{"jobscope-token"};
  absl::Mutex mutex_;
  std::optional<Digest> digest_ ABSL_GUARDED_BY(mutex_);  // nullopt: there is no valid token
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_TOKEN_CHECK_H_
