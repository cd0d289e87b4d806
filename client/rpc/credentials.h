// SPDX-License-Identifier: Apache-2.0
//
// Holds the credentials that the client presents, and the CAs that it trusts: the same for every
// worker of a run.
#ifndef CLIENT_RPC_CREDENTIALS_H_
#define CLIENT_RPC_CREDENTIALS_H_

#include <grpcpp/security/credentials.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/credentials/credential_files.h"
#include "common/net/endpoint.h"

namespace jobscope {

// Begins the text of a call that failed because its token was not sent. gRPC puts words of its own
// before it and changes the code to UNAVAILABLE.
inline constexpr char kTokenWithheld[] = "the token was not sent: ";

// Credentials as given by flags. If absent, the environment's JOBSCOPE_TLS_CA, _CERT, _KEY,
// JOBSCOPE_TOKEN_FILE decides. "none": nothing, whatever the environment says.
struct CredentialFlags {
  std::optional<std::string> tls_ca;    // turns TLS on: the CA that has signed the workers'
  std::optional<std::string> tls_cert;  // our own, if workers require one
  std::optional<std::string> tls_key;
  std::optional<std::string> token_file;
  std::string tls_server_name;  // the name in the workers' certificates, if it is not the address
};

// Loads and holds the client's credentials. Immutable; shared by all channels of a run.
class ClientCredentials {
 public:
  // Reads the files. Returns INVALID_ARGUMENT, which names flag or variable, file and remedy.
  static absl::StatusOr<std::shared_ptr<const ClientCredentials>> Load(
      const CredentialFlags& flags,
      const std::function<const char*(const char*)>& get_variable = nullptr);

  bool tls() const { return !authorities_pem_.empty(); }
  bool has_certificate() const { return !pair_.certificate_pem.empty(); }
  // The source of the trusted CAs, as the user gave it: "--tls_ca=/path".
  std::string authorities_name() const;
  const std::string& authorities_pem() const { return authorities_pem_; }
  const CertificatePair& pair() const { return pair_; }
  // Empty: the host of the address.
  const std::string& server_name() const { return server_name_; }

  // Call it before the first connection. Returns INVALID_ARGUMENT, which names an address to which
  // a token would be sent in clear text.
  absl::Status CheckReach(const std::vector<Endpoint>& endpoints) const;

  // Returns the credentials of a channel to `endpoint`.
  std::shared_ptr<grpc::ChannelCredentials> ForChannel(const Endpoint& endpoint) const;

 private:
  FileSetting authorities_, token_file_;
  std::string authorities_pem_;
  CertificatePair pair_;
  std::string server_name_;
  std::string token_;
  // One for all channels: otherwise each would parse the CAs again. Null without TLS.
  std::shared_ptr<grpc::ChannelCredentials> tls_credentials_;
};

}  // namespace jobscope

#endif  // CLIENT_RPC_CREDENTIALS_H_
