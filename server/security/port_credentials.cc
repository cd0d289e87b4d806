// SPDX-License-Identifier: Apache-2.0
#include "server/security/port_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/slice.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/text/foreign_text.h"
#include "server/limits.h"
#include "server/security/refusal_log.h"

namespace jobscope {
namespace {

constexpr size_t kMaxCertificateNameBytes = 100;

absl::string_view View(const grpc_slice& slice) {
  return {reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice)};
}

// Returns the caller's first certificate name; empty if it has shown no certificate.
std::string CertificateName(const grpc_auth_context* context) {
  for (const char* property : {GRPC_X509_CN_PROPERTY_NAME, GRPC_X509_SAN_PROPERTY_NAME}) {
    grpc_auth_property_iterator values =
        grpc_auth_context_find_properties_by_name(context, property);
    while (const grpc_auth_property* const value = grpc_auth_property_iterator_next(&values)) {
      if (value->value_length == 0) continue;
      return Printable({value->value, value->value_length}, kMaxCertificateNameBytes);
    }
  }
  return {};
}

// Checks the token of every request. gRPC calls it before it looks up the method, on the thread
// that has read the headers: takes microseconds, and at most once a second a check of a small file.
class TokenDoor {
 public:
  explicit TokenDoor(std::shared_ptr<TokenCheck> token) : token_(std::move(token)) {}

  static void Process(void* door, grpc_auth_context* context, const grpc_metadata* headers,
                      size_t count, grpc_process_auth_metadata_done_cb done, void* user_data) {
    static_cast<TokenDoor*>(door)->Check(context, headers, count, done, user_data);
  }
  static void Destroy(void* door) { delete static_cast<TokenDoor*>(door); }

 private:
  void Check(const grpc_auth_context* context, const grpc_metadata* headers, size_t count,
             grpc_process_auth_metadata_done_cb done, void* user_data) {
    // The headers to consume: nothing after this sees them.
    std::vector<grpc_metadata> given;
    Refusal refusal;
    for (const grpc_metadata* header = headers; header != headers + count; ++header) {
      const absl::string_view key = View(header->key);
      if (key == "authorization") given.push_back(*header);
      if (key == ":path") refusal.path = View(header->value);
      if (key == "user-agent") refusal.user_agent = View(header->value);
    }
    const char* text = nullptr;
    if (given.empty()) {
      text =
          "this worker requires a token: give capture its file with --token_file or "
          "JOBSCOPE_TOKEN_FILE, other clients the header authorization: Bearer TOKEN";
    } else if (given.size() > 1 || !Accepts(View(given.front().value))) {
      text =
          "the token is not this worker's: compare the client's --token_file "
          "(JOBSCOPE_TOKEN_FILE) with the worker's, which may have been replaced";
    }
    if (text == nullptr) {
      done(user_data, given.data(), given.size(), nullptr, 0, GRPC_STATUS_OK, nullptr);
      return;
    }
    const std::string name = CertificateName(context);
    refusal.name = name;
    refusal.reason = text;
    log_.Add(refusal);
    done(user_data, nullptr, 0, nullptr, 0, GRPC_STATUS_UNAUTHENTICATED, text);
  }

  bool Accepts(absl::string_view presented) {
    constexpr absl::string_view kScheme = "bearer ";  // the scheme's name is case-insensitive
    return absl::StartsWithIgnoreCase(presented, kScheme) &&
           token_->Accepts(presented.substr(kScheme.size()));
  }

  const std::shared_ptr<TokenCheck> token_;
  RefusalLog log_;
};

}  // namespace

PortCredentials::PortCredentials(std::shared_ptr<CertificateWatch> certificates,
                                 std::shared_ptr<TokenCheck> token)
    : certificates_(std::move(certificates)) {
  credentials_ = grpc_ssl_server_credentials_create_with_options(
      grpc_ssl_server_credentials_create_options_using_config_fetcher(
          certificates_->asks_callers() ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                        : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
          &FetchCertificate, this));
  AskForToken(std::move(token));
}

// Plain HTTP/2 on the wire, as without credentials; these check the headers, and that the
// connection comes from this host.
PortCredentials::PortCredentials(grpc_local_connect_type type, std::shared_ptr<TokenCheck> token)
    : credentials_(grpc_local_server_credentials_create(type)) {
  AskForToken(std::move(token));
}

PortCredentials::~PortCredentials() { grpc_server_credentials_release(credentials_); }

void PortCredentials::AskForToken(std::shared_ptr<TokenCheck> token) {
  if (token == nullptr) return;
  grpc_server_credentials_set_auth_metadata_processor(
      credentials_, {&TokenDoor::Process, &TokenDoor::Destroy, new TokenDoor(std::move(token))});
}

int PortCredentials::AddPortToServer(const std::string& address, grpc_server* server) {
  return grpc_server_add_http2_port(server, address.c_str(), credentials_);
}

grpc_ssl_certificate_config_reload_status PortCredentials::FetchCertificate(
    void* credentials, grpc_ssl_server_certificate_config** config) {
  auto* const self = static_cast<PortCredentials*>(credentials);
  const auto content = self->certificates_->NewerThan(self->version_);
  if (content == nullptr) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
  self->version_ = content->version;
  const grpc_ssl_pem_key_cert_pair pair = {content->pair.key_pem.c_str(),
                                           content->pair.certificate_pem.c_str()};
  // gRPC 1.51 aborts the process if a fetched config has no roots, and refuses empty ones. If
  // callers are not asked for a certificate, the roots are unused: any certificate will do.
  const std::string& roots = self->certificates_->asks_callers() ? content->authorities_pem
                                                                 : content->pair.certificate_pem;
  *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
  return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
}

}  // namespace jobscope
