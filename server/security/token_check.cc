// SPDX-License-Identifier: Apache-2.0
#include "server/security/token_check.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/log/log.h"

namespace jobscope {
namespace {
constexpr absl::Duration kLookInterval = absl::Seconds(1);
}  // namespace

absl::StatusOr<std::shared_ptr<TokenCheck>> TokenCheck::Create(const FileSetting& file) {
  std::shared_ptr<TokenCheck> check(new TokenCheck(file));
  if (auto status = check->Load(VersionOf(file)); !status.ok()) return status;
  return check;
}

bool TokenCheck::Accepts(absl::string_view presented) {
  // Digests all have one length, so the comparison reveals neither where two tokens differ nor how
  // long ours is.
  const Digest digest = DigestOf(presented);
  LookAgain();
  const absl::MutexLock lock(&mutex_);
  return digest_.has_value() && CRYPTO_memcmp(digest.data(), digest_->data(), digest.size()) == 0;
}

TokenCheck::Digest TokenCheck::DigestOf(absl::string_view text) {
  Digest digest = {};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

absl::Status TokenCheck::Load(const FileVersion& version) {
  const auto token = ReadToken(file_);
  const absl::MutexLock lock(&mutex_);
  version_ = version;
  digest_.reset();
  if (!token.ok()) return token.status();
  digest_ = DigestOf(*token);
  return absl::OkStatus();
}

void TokenCheck::LookAgain() {
  FileVersion known;
  {
    const absl::MutexLock lock(&mutex_);
    const absl::Time now = absl::Now();
    // A clock that was set back does not stop the checks.
    if (looking_ || (now >= looked_ && now - looked_ < kLookInterval)) return;
    looking_ = true;
    looked_ = now;
    known = version_;
  }
  // Before the read: the next check finds a write in between.
  const FileVersion version = VersionOf(file_);
  if (!(version == known)) {
    if (auto status = Load(version); status.ok()) {
      Log(LogLevel::kInfo, absl::StrCat(file_.setting, "=", file_.path, ": has a new token"));
    } else {
      Log(LogLevel::kWarning,
          absl::StrCat("every caller is refused until the token file is valid again: ",
                       absl::string_view(status.message())));
    }
  }
  const absl::MutexLock lock(&mutex_);
  looking_ = false;
}

}  // namespace jobscope
