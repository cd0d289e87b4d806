// SPDX-License-Identifier: Apache-2.0
#include "client/rpc/credentials.h"

#include <grpc/grpc_security_constants.h>

#include <cstdlib>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/rpc/worker_owner.h"

namespace jobscope {
namespace {

// Value of a flag that means: nothing, whatever the environment says.
constexpr char kNone[] = "none";

// Adds the token to every call of a channel. Without TLS, only once the connection's other end is
// known to be of this user or root.
class TokenHeader final : public grpc::MetadataCredentialsPlugin {
 public:
  // `clear_text`: where the token would be sent without TLS.
  TokenHeader(absl::string_view token, std::optional<Endpoint> clear_text)
      : header_(absl::StrCat("Bearer ", token)), clear_text_(std::move(clear_text)) {}
  bool IsBlocking() const override { return false; }
  const char* GetType() const override { return "token"; }
  grpc::Status GetMetadata(grpc::string_ref /*service*/, grpc::string_ref /*method*/,
                           const grpc::AuthContext& /*context*/,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    if (clear_text_.has_value()) {
      if (const absl::Status status = CheckWorkerOwner(*clear_text_); !status.ok()) {
        return grpc::Status(grpc::StatusCode::PERMISSION_DENIED,
                            absl::StrCat(kTokenWithheld, status.message()));
      }
    }
    metadata->emplace("authorization", header_);
    return grpc::Status::OK;
  }
  grpc::string DebugString() override { return "token"; }  // never the token itself

 private:
  const std::string header_;
  const std::optional<Endpoint> clear_text_;
};

// Returns whether a token sent to `endpoint` crosses no network.
bool IsOwnHost(const Endpoint& endpoint) {
  return endpoint.port == 0 || endpoint.host == "127.0.0.1" || endpoint.host == "::1" ||
         endpoint.host == "localhost";
}

}  // namespace

absl::StatusOr<std::shared_ptr<const ClientCredentials>> ClientCredentials::Load(
    const CredentialFlags& flags, const std::function<const char*(const char*)>& get_variable) {
  const auto choose = [&get_variable](const std::optional<std::string>& flag, const char* flag_name,
                                      const char* variable) {
    const char* const value = get_variable ? get_variable(variable) : std::getenv(variable);
    if (flag.has_value() && *flag != kNone) return FileSetting{*flag, flag_name};
    if (!flag.has_value() && value != nullptr && *value != '\0')
      return FileSetting{value, variable};
    return FileSetting{"", absl::StrCat(flag_name, " (", variable, ")")};
  };
  auto credentials = std::make_shared<ClientCredentials>();
  credentials->authorities_ = choose(flags.tls_ca, "--tls_ca", "JOBSCOPE_TLS_CA");
  credentials->token_file_ = choose(flags.token_file, "--token_file", "JOBSCOPE_TOKEN_FILE");
  const FileSetting certificate = choose(flags.tls_cert, "--tls_cert", "JOBSCOPE_TLS_CERT");
  const FileSetting key = choose(flags.tls_key, "--tls_key", "JOBSCOPE_TLS_KEY");
  if (credentials->authorities_.given()) {
    auto authorities = ReadAuthorities(credentials->authorities_);
    if (!authorities.ok()) return authorities.status();
    credentials->authorities_pem_ = *std::move(authorities);
  }
  if (certificate.given() || key.given()) {
    auto pair = ReadCertificatePair(certificate, key, CertificateUse::kClient);
    if (!pair.ok()) return pair.status();
    credentials->pair_ = *std::move(pair);
  }
  credentials->server_name_ = flags.tls_server_name;
  if (!credentials->tls() &&
      (credentials->has_certificate() || !credentials->server_name_.empty())) {
    return absl::InvalidArgumentError(
        absl::StrCat(credentials->has_certificate()
                         ? absl::StrCat(certificate.setting, "=", certificate.path)
                         : absl::StrCat("--tls_server_name=", credentials->server_name_),
                     ": TLS also needs ", credentials->authorities_.setting,
                     ", the CA that signed the workers' certificates"));
  }
  if (credentials->token_file_.given()) {
    auto token = ReadToken(credentials->token_file_);
    if (!token.ok()) return token.status();
    credentials->token_ = *std::move(token);
  }
  if (credentials->tls()) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = credentials->authorities_pem_;
    options.pem_cert_chain = credentials->pair_.certificate_pem;
    options.pem_private_key = credentials->pair_.key_pem;
    credentials->tls_credentials_ = grpc::SslCredentials(options);
  }
  return credentials;
}

std::string ClientCredentials::authorities_name() const {
  return absl::StrCat(authorities_.setting, "=", authorities_.path);
}

absl::Status ClientCredentials::CheckReach(const std::vector<Endpoint>& endpoints) const {
  if (tls() || token_.empty()) return absl::OkStatus();
  for (const Endpoint& endpoint : endpoints) {
    if (IsOwnHost(endpoint)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(token_file_.setting, "=", token_file_.path, ": the token would be sent to ",
                     endpoint.address, " in clear text; give ", authorities_.setting,
                     " for TLS, or dial 127.0.0.1, localhost, [::1] or a unix socket"));
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ChannelCredentials> ClientCredentials::ForChannel(
    const Endpoint& endpoint) const {
  if (token_.empty()) return tls() ? tls_credentials_ : grpc::InsecureChannelCredentials();
  // Without TLS these are plain HTTP/2, and valid only between addresses of this host.
  const auto channel =
      tls() ? tls_credentials_
            : grpc::experimental::LocalCredentials(endpoint.port == 0 ? UDS : LOCAL_TCP);
  return grpc::CompositeChannelCredentials(
      channel, grpc::experimental::MetadataCredentialsFromPlugin(
                   std::make_unique<TokenHeader>(
                       token_, tls() ? std::nullopt : std::optional<Endpoint>(endpoint)),
                   tls() ? GRPC_PRIVACY_AND_INTEGRITY : GRPC_SECURITY_NONE));
}

}  // namespace jobscope
