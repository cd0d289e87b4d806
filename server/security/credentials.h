// SPDX-License-Identifier: Apache-2.0
//
// Who may call this worker: TLS, mutual TLS, a token; and which addresses may be served with what.
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
#include "server/security/certificate_watch.h"
#include "server/security/token_check.h"

namespace jobscope {

// As given in code or by the environment; what is not given has an empty path, and the name of the
// setting all the same.
struct CredentialFiles {
  FileSetting tls_certificate{"", "JOBSCOPE_TLS_CERT (options.tls_cert)"};
  FileSetting tls_key{"", "JOBSCOPE_TLS_KEY (options.tls_key)"};
  // Given: callers need a certificate of that CA.
  FileSetting tls_authorities{"", "JOBSCOPE_TLS_CA (options.tls_ca)"};
  FileSetting token{"", "JOBSCOPE_TOKEN_FILE (options.token_file)"};
};

// The files' content, checked, and looked at again when it changes.
class Credentials {
 public:
  // INVALID_ARGUMENT names setting, file and remedy.
  static absl::StatusOr<Credentials> Load(const CredentialFiles& files);

  bool tls() const { return certificates_ != nullptr; }
  bool mutual_tls() const { return tls() && certificates_->asks_callers(); }
  bool wants_token() const { return token_ != nullptr; }

  // Whether `targets` may be served with these credentials. PERMISSION_DENIED names what is
  // missing. `insecure`: an address that strangers reach may be served to all of them; it is
  // logged. A token in clear text is refused wherever it would cross a network, `insecure` or not.
  absl::Status CheckReach(const std::vector<BindTarget>& targets, bool insecure) const;

  // What gRPC checks on the port of `target`: before any method is looked up, for every service,
  // for health and for methods that do not exist, so nothing can be told apart without credentials.
  // Must outlive the server.
  std::shared_ptr<grpc::ServerCredentials> ForPort(const BindTarget& target) const;

 private:
  std::shared_ptr<CertificateWatch> certificates_;
  std::shared_ptr<TokenCheck> token_;
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_CREDENTIALS_H_
