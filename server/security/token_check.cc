// SPDX-License-Identifier: Apache-2.0
#include "server/security/token_check.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/log/log.h"

namespace jobscope {

absl::StatusOr<std::shared_ptr<TokenCheck>> TokenCheck::Create(const FileSetting& file,
                                                               GetVersion version_of) {
  std::shared_ptr<TokenCheck> check(new TokenCheck(file, std::move(version_of)));
  if (auto status = check->Load(); !status.ok()) return status;
  return check;
}

bool TokenCheck::Accepts(absl::string_view presented) {
  // Digests all have one length, so the comparison reveals neither where two tokens differ nor how
  // long ours is.
  const Digest digest = DigestOf(presented);
  check_.Run([self = shared_from_this()] { self->LoadIfChanged(); });
  const absl::MutexLock lock(&mutex_);
  return digest_.has_value() && CRYPTO_memcmp(digest.data(), digest_->data(), digest.size()) == 0;
}

TokenCheck::Digest TokenCheck::DigestOf(absl::string_view text) {
  Digest digest = {};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

absl::Status TokenCheck::Load() {
  // Takes the version before the read: the next check then detects a write during the read.
  seen_ = version_of_(file_);
  const auto token = ReadToken(file_);
  const absl::MutexLock lock(&mutex_);
  digest_.reset();
  loaded_ = token.ok();
  if (!loaded_) return token.status();
  digest_ = DigestOf(*token);
  return absl::OkStatus();
}

void TokenCheck::LoadIfChanged() {
  const bool changed = !(version_of_(file_) == seen_);
  if (!changed && loaded_) return;
  if (auto status = Load(); status.ok()) {
    Log(LogLevel::kInfo, absl::StrCat(file_.setting, "=", file_.path, ": has a new token"));
  } else if (changed) {
    Log(LogLevel::kWarning,
        absl::StrCat("every caller is refused until the token file is valid again: ",
                     absl::string_view(status.message())));
  }
}

}  // namespace jobscope
