// SPDX-License-Identifier: Apache-2.0
#include "server/credentials.h"

#include <grpc/grpc_security_constants.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/log.h"
#include "server/limits.h"
#include "server/refusal_log.h"
#include "server/request_validation.h"
#include "server/unary_call.h"

namespace jobscope {
namespace {

constexpr absl::string_view kUnixPrefix = "unix:";
constexpr size_t kMaxCertificateNameBytes = 100;

absl::string_view View(grpc::string_ref text) { return {text.data(), text.size()}; }

// The first of the caller's names; empty if it has shown no certificate.
std::string CertificateName(const grpc::AuthContext& context) {
  for (const char* property : {GRPC_X509_CN_PROPERTY_NAME, GRPC_X509_SAN_PROPERTY_NAME}) {
    for (const grpc::string_ref& value : context.FindPropertyValues(property)) {
      if (!value.empty()) return Printable(View(value), kMaxCertificateNameBytes);
    }
  }
  return {};
}

// gRPC calls it with the headers of every request, before it looks the method up.
class CallerCheck final : public grpc::AuthMetadataProcessor {
 public:
  explicit CallerCheck(std::shared_ptr<TokenCheck> token) : token_(std::move(token)) {}

  // Runs on the thread that has read the headers: it takes microseconds, and one look at a small
  // file per second.
  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context,
                       OutputMetadata* consumed, OutputMetadata* /*response*/) override {
    const auto [first, last] = metadata.equal_range("authorization");
    if (first == last) {
      return Refuse(metadata, *context,
                    "this worker wants a token: give capture its file with --token_file or "
                    "JOBSCOPE_TOKEN_FILE, other clients the header authorization: Bearer TOKEN");
    }
    for (auto header = first; header != last; ++header) {
      // Consumed: nothing behind this sees it.
      consumed->emplace("authorization", std::string(View(header->second)));
    }
    absl::string_view presented = View(first->second);
    // The name of the scheme has no case.
    const bool bearer = absl::StartsWithIgnoreCase(presented, "bearer ");
    if (bearer) presented.remove_prefix(7);
    if (std::next(first) == last && bearer && token_->Accepts(presented)) return grpc::Status::OK;
    return Refuse(metadata, *context,
                  "the token is not this worker's: compare the client's --token_file "
                  "(JOBSCOPE_TOKEN_FILE) with the worker's, which may have been replaced");
  }

 private:
  grpc::Status Refuse(const InputMetadata& metadata, const grpc::AuthContext& context,
                      const char* text) {
    const auto path = metadata.find(":path");
    const auto agent = metadata.find("user-agent");
    log_.Add({path == metadata.end() ? absl::string_view() : View(path->second),
              CertificateName(context),
              agent == metadata.end() ? absl::string_view() : View(agent->second), text});
    return grpc::Status(grpc::StatusCode::UNAUTHENTICATED, text);
  }

  const std::shared_ptr<TokenCheck> token_;
  RefusalLog log_;
};

// Where a token may travel in clear text: gRPC's own check of a local connection knows these.
bool IsOwnHost(const BindTarget& target) {
  return absl::StartsWith(target.text, kUnixPrefix) ||
         absl::StartsWith(target.text, "127.0.0.1:") || absl::StartsWith(target.text, "[::1]:");
}

}  // namespace

absl::StatusOr<Credentials> Credentials::Load(const CredentialFiles& files) {
  Credentials credentials;
  if (files.tls_certificate.given() || files.tls_key.given()) {
    auto pair = ReadCertificatePair(files.tls_certificate, files.tls_key, CertificateUse::kServer);
    if (!pair.ok()) return pair.status();
    credentials.pair_ = *std::move(pair);
  }
  if (files.tls_authorities.given()) {
    if (!credentials.tls()) {
      return absl::InvalidArgumentError(absl::StrCat(
          files.tls_authorities.setting, "=", files.tls_authorities.path,
          ": the worker cannot ask callers for a certificate without one of its own: give ",
          files.tls_certificate.setting, " and ", files.tls_key.setting, ", too"));
    }
    auto authorities = ReadAuthorities(files.tls_authorities);
    if (!authorities.ok()) return authorities.status();
    credentials.authorities_pem_ = *std::move(authorities);
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
      return absl::PermissionDeniedError(absl::StrCat(
          "on ", target.text,
          " the token would travel in clear text: give a certificate and its key, too "
          "(JOBSCOPE_TLS_CERT, JOBSCOPE_TLS_KEY, or options.tls_cert, options.tls_key), or listen "
          "on 127.0.0.1, [::1] or a unix socket"));
    }
    if (target.loopback || mutual_tls() || wants_token()) continue;
    if (!insecure) {
      return absl::PermissionDeniedError(absl::StrCat(
          target.text,
          " can be reached from other hosts, and everybody there could profile this "
          "process: ",
          tls() ? "TLS alone tells the callers who the worker is, but not the worker who calls; "
                  "add JOBSCOPE_TLS_CA (options.tls_ca: callers need a certificate of that CA) or "
                  "JOBSCOPE_TOKEN_FILE (options.token_file)"
                : "give it credentials, JOBSCOPE_TLS_CERT and JOBSCOPE_TLS_KEY with "
                  "JOBSCOPE_TLS_CA or JOBSCOPE_TOKEN_FILE (docs/security.md)",
          "; or listen on 127.0.0.1 or a unix socket and tunnel to it; or say JOBSCOPE_INSECURE=1 "
          "(options.insecure) if everybody in the network is trusted"));
    }
    Log(LogLevel::kWarning, absl::StrCat("serves ", target.text,
                                         " insecurely, as asked: everybody who reaches it can "
                                         "profile this process"));
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> Credentials::ForPort(const BindTarget& target) const {
  std::shared_ptr<grpc::ServerCredentials> credentials;
  if (tls()) {
    grpc::SslServerCredentialsOptions options(
        mutual_tls() ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                     : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
    options.pem_key_cert_pairs.push_back({pair_.key_pem, pair_.certificate_pem});
    options.pem_root_certs = authorities_pem_;
    credentials = grpc::SslServerCredentials(options);
  } else if (wants_token()) {
    // Plain HTTP/2 on the wire, as without credentials; these look at the headers, and at whether
    // the connection comes from this host.
    credentials = grpc::experimental::LocalServerCredentials(
        absl::StartsWith(target.text, kUnixPrefix) ? UDS : LOCAL_TCP);
  } else {
    return grpc::InsecureServerCredentials();  // takes no check of headers
  }
  if (wants_token()) credentials->SetAuthMetadataProcessor(std::make_shared<CallerCheck>(token_));
  return credentials;
}

std::string PeerOf(const grpc::ServerContextBase& context) {
  std::string peer = ReadablePeer(context.peer());
  const auto authenticated = context.auth_context();
  const std::string name =
      authenticated == nullptr ? std::string() : CertificateName(*authenticated);
  if (!name.empty()) absl::StrAppend(&peer, " (", name, ")");
  return peer;
}

}  // namespace jobscope
