// SPDX-License-Identifier: Apache-2.0
#include "server/native/native_captures.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/limits.h"

namespace jobscope {
namespace {

// Number of removed captures whose reason is kept.
constexpr size_t kMaxGone = 16;

// Returns 128 random bits, which cannot be guessed; empty if the system has none.
std::string MakeKey() {
  std::array<char, limits::kCaptureKeyBytes / 2> bytes;
  ssize_t got = 0;
  do {
    got = getrandom(bytes.data(), bytes.size(), GRND_NONBLOCK);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(bytes.size())) return {};
  return absl::BytesToHexString(absl::string_view(bytes.data(), bytes.size()));
}

bool SameKey(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::shared_ptr<NativeCaptures> NativeCaptures::Make(std::shared_ptr<SessionManager> sessions,
                                                     StepSource steps, NativeCaptureLimits limits) {
  const std::shared_ptr<NativeCaptures> captures(
      new NativeCaptures(sessions, std::move(steps), limits));
  sessions->SetEvictor([weak = std::weak_ptr<NativeCaptures>(captures)] {
    if (const auto self = weak.lock()) self->Evict();
  });
  return captures;
}

NativeCaptures::NativeCaptures(std::shared_ptr<SessionManager> sessions, StepSource steps,
                               NativeCaptureLimits limits)
    : sessions_(std::move(sessions)), steps_(std::move(steps)), limits_(limits) {}

absl::StatusOr<std::shared_ptr<NativeCapture>> NativeCaptures::New(SessionOptions options) {
  std::string key = MakeKey();
  if (key.empty()) {
    return absl::UnavailableError(
        "the system has no random bytes for the key of a capture: try again");
  }
  NativeCapture::Dependencies dependencies;
  dependencies.captures = weak_from_this();
  dependencies.sessions = sessions_;
  dependencies.steps = steps_;
  dependencies.hold = limits_.hold;
  dependencies.resume = limits_.resume;
  auto capture =
      std::make_shared<NativeCapture>(std::move(dependencies), std::move(key), std::move(options));
  absl::MutexLock lock(&mutex_);
  if (closed_) return absl::UnavailableError("the profiler server is shutting down");
  captures_.push_back(capture);
  return capture;
}

absl::StatusOr<std::shared_ptr<NativeCapture>> NativeCaptures::Find(absl::string_view key) const {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<NativeCapture> found;
  for (const auto& capture : captures_) {
    if (SameKey(capture->key(), key)) found = capture;
  }
  const Gone* gone = nullptr;
  for (const Gone& each : gone_) {
    if (SameKey(each.key, key)) gone = &each;
  }
  if (found != nullptr) return found;
  if (gone != nullptr) return absl::NotFoundError(absl::StrCat("the capture ", gone->why));
  return absl::NotFoundError(
      "no capture has this key: it never existed, was discarded long ago, or was in a process that "
      "has ended");
}

void NativeCaptures::Forget(const NativeCapture& capture, const std::string& why) {
  std::shared_ptr<NativeCapture> last;  // not destroyed under the lock
  absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(captures_.begin(), captures_.end(),
                                  [&](const auto& each) { return each.get() == &capture; });
  if (found == captures_.end()) return;
  last = std::move(*found);
  captures_.erase(found);
  if (why.empty()) return;
  gone_.push_back({capture.key(), why});
  if (gone_.size() > kMaxGone) gone_.pop_front();
}

void NativeCaptures::Evict() {
  const std::vector<std::shared_ptr<NativeCapture>> captures = All();
  if (captures.empty()) return;
  std::string by = "the next session";
  if (const auto busy = sessions_->busy()) {
    by = absl::StrCat("session \"", busy->session_id(), "\" of ",
                      busy->peer().empty() ? "this process" : busy->peer());
  }
  for (const auto& capture : captures) capture->Evict(by);
}

void NativeCaptures::Close() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
  }
  for (const auto& capture : All()) capture->DropUnattached("ended with the profiler server");
}

bool NativeCaptures::closed() const {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

size_t NativeCaptures::size() const {
  absl::MutexLock lock(&mutex_);
  return captures_.size();
}

std::vector<std::shared_ptr<NativeCapture>> NativeCaptures::All() const {
  absl::MutexLock lock(&mutex_);
  return captures_;
}

}  // namespace jobscope
