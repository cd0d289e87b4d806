// SPDX-License-Identifier: Apache-2.0
#include "server/security/token_check.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/clock/clock.h"
#include "common/log/log.h"
#include "common/threads/worker_thread.h"

namespace jobscope {
namespace {
constexpr uint64_t kTokenIntervalNs = 1'000'000'000;
// A check takes less than a millisecond on a local disk, and some on a busy machine.
constexpr absl::Duration kMaxTokenWait = absl::Milliseconds(100);
}  // namespace

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
  const absl::MutexLock lock(&mutex_);
  const uint64_t now_ns = MonotonicNs();
  if (!looking_ && now_ns - looked_ns_ >= kTokenIntervalNs) {
    looked_ns_ = now_ns;
    const auto look = [self = shared_from_this()] { self->LoadIfChanged(); };
    looking_ = StartWorkerThread("jobscope-token", look).ok();
    const auto ended = +[](bool* looking) { return !*looking; };
    mutex_.AwaitWithTimeout(absl::Condition(ended, &looking_), kMaxTokenWait);
  }
  return digest_.has_value() && CRYPTO_memcmp(digest.data(), digest_->data(), digest.size()) == 0;
}

TokenCheck::Digest TokenCheck::DigestOf(absl::string_view text) {
  Digest digest = {};
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

absl::Status TokenCheck::Load() {
  // Before the read: the next check finds a write in between.
  seen_ = version_of_(file_);
  const auto token = ReadToken(file_);
  const absl::MutexLock lock(&mutex_);
  digest_.reset();
  if (!token.ok()) return token.status();
  digest_ = DigestOf(*token);
  return absl::OkStatus();
}

void TokenCheck::LoadIfChanged() {
  const absl::Cleanup looked = [this] {
    const absl::MutexLock lock(&mutex_);
    looking_ = false;
  };
  if (version_of_(file_) == seen_) return;
  if (auto status = Load(); status.ok()) {
    Log(LogLevel::kInfo, absl::StrCat(file_.setting, "=", file_.path, ": has a new token"));
  } else {
    Log(LogLevel::kWarning,
        absl::StrCat("every caller is refused until the token file is valid again: ",
                     absl::string_view(status.message())));
  }
}

}  // namespace jobscope
