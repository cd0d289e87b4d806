// SPDX-License-Identifier: Apache-2.0
#include "server/security/certificate_watch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/log/log.h"

namespace jobscope {

bool CertificateWatch::Versions::operator==(const Versions& other) const {
  return certificate == other.certificate && key == other.key && authorities == other.authorities;
}

absl::StatusOr<std::shared_ptr<CertificateWatch>> CertificateWatch::Create(Files files,
                                                                           GetVersion version_of) {
  std::shared_ptr<CertificateWatch> watch(
      new CertificateWatch(std::move(files), std::move(version_of)));
  if (auto status = watch->Load(); !status.ok()) return status;
  return watch;
}

std::shared_ptr<const CertificateWatch::Content> CertificateWatch::NewerThan(uint64_t version) {
  check_.Run([self = shared_from_this()] { self->LoadIfChanged(); });
  const absl::MutexLock lock(&mutex_);
  return content_->version > version ? content_ : nullptr;
}

CertificateWatch::Versions CertificateWatch::LookAtFiles() const {
  return {version_of_(files_.certificate), version_of_(files_.key),
          version_of_(files_.authorities)};
}

absl::Status CertificateWatch::Load() {
  // Before the read: the next check finds a write in between.
  seen_ = LookAtFiles();
  loaded_ = false;
  auto pair = ReadCertificatePair(files_.certificate, files_.key, CertificateUse::kServer);
  if (!pair.ok()) return pair.status();
  auto loaded = std::make_shared<Content>();
  if (asks_callers()) {
    auto authorities = ReadAuthorities(files_.authorities);
    if (!authorities.ok()) return authorities.status();
    loaded->authorities_pem = *std::move(authorities);
  }
  loaded->pair = *std::move(pair);
  const absl::MutexLock lock(&mutex_);
  loaded->version = content_ == nullptr ? 1 : content_->version + 1;
  content_ = std::move(loaded);
  loaded_ = true;
  return absl::OkStatus();
}

void CertificateWatch::LoadIfChanged() {
  const bool changed = !(LookAtFiles() == seen_);
  if (!changed && loaded_) return;
  if (const absl::Status status = Load(); status.ok()) {
    Log(LogLevel::kInfo, absl::StrCat(files_.certificate.setting, "=", files_.certificate.path,
                                      ": new connections get the new certificate"));
  } else if (changed) {
    Log(LogLevel::kWarning, absl::StrCat("the previous certificate stays in force: ",
                                         absl::string_view(status.message())));
  }
}

}  // namespace jobscope
