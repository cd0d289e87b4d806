// SPDX-License-Identifier: Apache-2.0
//
// Decides who may call this worker (TLS, mutual TLS, a token), and which addresses may be served
// with which credentials.
#ifndef SERVER_SECURITY_CREDENTIALS_H_
#define SERVER_SECURITY_CREDENTIALS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/credentials/credential_files.h"
#include "server/listen/listen_address.h"
#include "server/security/allowed_names.h"
#include "server/security/audit.h"
#include "server/security/certificate_watch.h"
#include "server/security/token_check.h"

namespace jobscope {

// Files as given in code or by the environment. A file that is not given has an empty path, but
// still the name of its setting.
struct CredentialFiles {
  FileSetting tls_certificate{"", "JOBSCOPE_TLS_CERT (options.tls_cert)"};
  FileSetting tls_key{"", "JOBSCOPE_TLS_KEY (options.tls_key)"};
  // If given, callers need a certificate of that CA.
  FileSetting tls_authorities{"", "JOBSCOPE_TLS_CA (options.tls_ca)"};
  FileSetting token{"", "JOBSCOPE_TOKEN_FILE (options.token_file)"};
  // Names, separated by commas; empty: every certificate of that CA. No file.
  std::string tls_allowed_names;
};

// The validated content of the files, reloaded when they change.
class Credentials {
 public:
  // Returns INVALID_ARGUMENT, which names setting, file and remedy.
  static absl::StatusOr<Credentials> Load(const CredentialFiles& files);

  bool tls() const { return certificates_ != nullptr; }
  bool mutual_tls() const { return tls() && certificates_->asks_callers(); }
  bool wants_token() const { return token_ != nullptr; }

  // Returns whether `targets` may be served with these credentials. PERMISSION_DENIED names what is
  // missing. With `insecure`, an address that other hosts reach may be served to all of them, and
  // this is logged. A token in clear text is refused wherever it would cross a network, even with
  // `insecure`.
  absl::Status CheckReach(const std::vector<BindTarget>& targets, bool insecure) const;

  // Returns whether callers of `target` are distinguished by their user on this host, because
  // nobody else reaches it and no credential is asked of them.
  bool ChecksUsers(const BindTarget& target) const {
    return target.loopback && !mutual_tls() && !wants_token();
  }

  // Returns what gRPC checks on the port of `target`, before it looks up the method: for every
  // service, for health and for methods that do not exist, so a caller without credentials learns
  // nothing. Must outlive the server.
  std::shared_ptr<grpc::ServerCredentials> ForPort(const BindTarget& target,
                                                   std::shared_ptr<AuditLog> audit) const;

 private:
  std::shared_ptr<CertificateWatch> certificates_;
  std::shared_ptr<TokenCheck> token_;
  AllowedNames allowed_names_;
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_CREDENTIALS_H_
