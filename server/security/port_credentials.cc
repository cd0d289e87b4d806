// SPDX-License-Identifier: Apache-2.0
#include "server/security/port_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/slice.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/credentials/credential_files.h"
#include "common/text/foreign_text.h"
#include "server/security/audit.h"

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

// Checks the token, and the certificate's end and name, of every request. gRPC calls it before it
// looks up the method, on the thread that has read the headers: takes microseconds, and at most
// once a second a check of a small file.
class CallerDoor {
 public:
  explicit CallerDoor(CallerChecks checks) : checks_(std::move(checks)) {}

  static void Process(void* door, grpc_auth_context* context, const grpc_metadata* headers,
                      size_t count, grpc_process_auth_metadata_done_cb done, void* user_data) {
    static_cast<CallerDoor*>(door)->Check(context, headers, count, done, user_data);
  }
  static void Destroy(void* door) { delete static_cast<CallerDoor*>(door); }

 private:
  void Check(const grpc_auth_context* context, const grpc_metadata* headers, size_t count,
             grpc_process_auth_metadata_done_cb done, void* user_data) {
    // The headers to consume: nothing after this sees them.
    std::vector<grpc_metadata> given;
    absl::string_view path;
    absl::string_view user_agent;
    for (const grpc_metadata* header = headers; header != headers + count; ++header) {
      const absl::string_view key = View(header->key);
      if (key == "authorization") given.push_back(*header);
      if (key == ":path") path = View(header->value);
      if (key == "user-agent") user_agent = View(header->value);
    }
    absl::Status status = CheckToken(given);
    if (status.ok()) status = CheckCertificate(context);
    if (status.ok() && !HasAllowedName(context)) {
      status = absl::PermissionDeniedError(
          "the name in the caller's certificate is not one that this worker accepts: call with "
          "another certificate, or have the worker started with that name in "
          "JOBSCOPE_TLS_ALLOWED_NAMES (options.tls_allowed_names)");
    }
    if (status.ok()) {
      done(user_data, checks_.token == nullptr ? nullptr : given.data(),
           checks_.token == nullptr ? 0 : given.size(), nullptr, 0, GRPC_STATUS_OK, nullptr);
      return;
    }
    // gRPC gives the address of a caller only to a method, and this call is rejected before that.
    const std::string name = CertificateName(context);
    const std::string peer =
        name.empty() ? "a caller without credentials" : absl::StrCat("certificate ", name);
    const std::string agent =
        user_agent.empty() ? std::string() : absl::StrCat("user agent ", user_agent);
    checks_.audit->Write({AuditKind::kRefusal, absl::StripPrefix(path, "/"), peer, agent,
                          absl::ZeroDuration(), status, ""});
    done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.code()),
         std::string(status.message()).c_str());
  }

  absl::Status CheckToken(const std::vector<grpc_metadata>& given) {
    if (checks_.token == nullptr) return absl::OkStatus();
    if (given.empty()) {
      return absl::UnauthenticatedError(
          "this worker requires a token: give capture its file with --token_file or "
          "JOBSCOPE_TOKEN_FILE, other clients the header authorization: Bearer TOKEN");
    }
    constexpr absl::string_view kScheme = "bearer ";  // the scheme's name is case-insensitive
    const absl::string_view presented = View(given.front().value);
    if (given.size() == 1 && absl::StartsWithIgnoreCase(presented, kScheme) &&
        checks_.token->Accepts(presented.substr(kScheme.size()))) {
      return absl::OkStatus();
    }
    return absl::UnauthenticatedError(
        "the token is not this worker's: compare the client's --token_file "
        "(JOBSCOPE_TOKEN_FILE) with the worker's, which may have been replaced");
  }

  // TLS checks a certificate when a session begins. A connection, and by resumption a session, may
  // last longer than the certificate is valid.
  static absl::Status CheckCertificate(const grpc_auth_context* context) {
    grpc_auth_property_iterator values =
        grpc_auth_context_find_properties_by_name(context, GRPC_X509_PEM_CERT_PROPERTY_NAME);
    const grpc_auth_property* const shown = grpc_auth_property_iterator_next(&values);
    if (shown == nullptr) return absl::OkStatus();  // none is required
    const absl::Status status = CheckNotExpired({shown->value, shown->value_length});
    return status.ok() ? status
                       : absl::UnauthenticatedError(
                             absl::StrCat("the caller's certificate ", status.message()));
  }

  // Any of the certificate's names counts.
  bool HasAllowedName(const grpc_auth_context* context) const {
    if (checks_.allowed_names.any()) return true;
    for (const char* property : {GRPC_X509_CN_PROPERTY_NAME, GRPC_X509_SAN_PROPERTY_NAME}) {
      grpc_auth_property_iterator values =
          grpc_auth_context_find_properties_by_name(context, property);
      while (const grpc_auth_property* const value = grpc_auth_property_iterator_next(&values)) {
        if (checks_.allowed_names.Accepts({value->value, value->value_length})) return true;
      }
    }
    return false;
  }

  const CallerChecks checks_;
};

}  // namespace

PortCredentials::PortCredentials(std::shared_ptr<CertificateWatch> certificates,
                                 CallerChecks checks)
    : CCredentials(grpc_ssl_server_credentials_create_with_options(
          grpc_ssl_server_credentials_create_options_using_config_fetcher(
              certificates->asks_callers()
                  ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                  : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
              &FetchCertificate, this))),
      certificates_(std::move(certificates)) {
  CheckCallers(std::move(checks));
}

// Plain HTTP/2 on the wire, as without credentials; these check the headers, and that the
// connection comes from this host.
PortCredentials::PortCredentials(grpc_local_connect_type type, CallerChecks checks)
    : CCredentials(grpc_local_server_credentials_create(type)) {
  CheckCallers(std::move(checks));
}

void PortCredentials::CheckCallers(CallerChecks checks) {
  const bool mutual_tls = certificates_ != nullptr && certificates_->asks_callers();
  if (checks.token == nullptr && !mutual_tls) return;  // allowed names come with mutual TLS only
  grpc_server_credentials_set_auth_metadata_processor(
      c_creds(), {&CallerDoor::Process, &CallerDoor::Destroy, new CallerDoor(std::move(checks))});
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
