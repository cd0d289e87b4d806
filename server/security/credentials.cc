// SPDX-License-Identifier: Apache-2.0
#include "server/security/credentials.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/log/log.h"
#include "server/security/port_credentials.h"

namespace jobscope {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";

// Returns whether a token may be sent to this address in clear text: gRPC's own check of local
// connections accepts these.
bool IsOwnHost(const BindTarget& target) {
  return absl::StartsWith(target.text, kUnixPrefix) ||
         absl::StartsWith(target.text, "127.0.0.1:") || absl::StartsWith(target.text, "[::1]:");
}

}  // namespace

absl::StatusOr<Credentials> Credentials::Load(const CredentialFiles& files) {
  Credentials credentials;
  const bool tls = files.tls_certificate.given() || files.tls_key.given();
  if (files.tls_authorities.given() && !tls) {
    return absl::InvalidArgumentError(absl::StrCat(
        files.tls_authorities.setting, "=", files.tls_authorities.path,
        ": the worker cannot ask callers for a certificate without one of its own: give ",
        files.tls_certificate.setting, " and ", files.tls_key.setting, ", too"));
  }
  if (tls) {
    auto certificates =
        CertificateWatch::Create({files.tls_certificate, files.tls_key, files.tls_authorities});
    if (!certificates.ok()) return certificates.status();
    credentials.certificates_ = *std::move(certificates);
  }
  if (!files.tls_allowed_names.empty()) {
    if (!credentials.mutual_tls()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "JOBSCOPE_TLS_ALLOWED_NAMES (options.tls_allowed_names): names of callers are known from "
          "their certificates only; give ",
          files.tls_authorities.setting, ", too"));
    }
    auto names = AllowedNames::Parse(files.tls_allowed_names);
    if (!names.ok()) return names.status();
    credentials.allowed_names_ = *std::move(names);
  }
  if (files.token.given()) {
    auto token = TokenCheck::Create(files.token);
    if (!token.ok()) return token.status();
    credentials.token_ = *std::move(token);
  }
  return credentials;
}

absl::Status Credentials::CheckReach(const std::vector<BindTarget>& targets, bool insecure) const {
  for (const BindTarget& target : targets) {
    if (wants_token() && !tls() && !IsOwnHost(target)) {
      return absl::PermissionDeniedError(
          absl::StrCat("on ", target.text,
                       " the token would be sent in clear text: give a certificate and its key, "
                       "too (JOBSCOPE_TLS_CERT, JOBSCOPE_TLS_KEY, or options.tls_cert, "
                       "options.tls_key), or listen on 127.0.0.1, [::1] or a unix socket"));
    }
    if (target.loopback || mutual_tls() || wants_token()) continue;
    if (!insecure) {
      return absl::PermissionDeniedError(absl::StrCat(
          target.text,
          " can be reached from other hosts, and everybody there could profile this "
          "process: ",
          tls() ? "TLS alone authenticates the worker, but not its callers; add JOBSCOPE_TLS_CA "
                  "(options.tls_ca: callers need a certificate of that CA) or JOBSCOPE_TOKEN_FILE "
                  "(options.token_file)"
                : "give it credentials, JOBSCOPE_TLS_CERT and JOBSCOPE_TLS_KEY with "
                  "JOBSCOPE_TLS_CA or JOBSCOPE_TOKEN_FILE (docs/security.md)",
          "; or listen on 127.0.0.1 or a unix socket and tunnel to it; or set JOBSCOPE_INSECURE=1 "
          "(options.insecure) if everybody in the network is trusted"));
    }
    Log(LogLevel::kWarning, absl::StrCat("serves ", target.text,
                                         " insecurely, as asked: everybody who reaches it can "
                                         "profile this process"));
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForPort(
    const BindTarget& target, std::shared_ptr<AuditLog> audit) const {
  CallerChecks checks{token_, allowed_names_, std::move(audit)};
  if (tls()) return std::make_shared<PortCredentials>(certificates_, std::move(checks));
  if (wants_token()) {
    return std::make_shared<PortCredentials>(
        absl::StartsWith(target.text, kUnixPrefix) ? UDS : LOCAL_TCP, std::move(checks));
  }
  return grpc::InsecureServerCredentials();
}

}  // namespace jobscope
