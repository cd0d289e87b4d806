// SPDX-License-Identifier: Apache-2.0
//
// What gRPC asks of everybody who comes to one port.
#ifndef SERVER_SECURITY_PORT_CREDENTIALS_H_
#define SERVER_SECURITY_PORT_CREDENTIALS_H_

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "server/security/certificate_watch.h"
#include "server/security/token_check.h"

namespace jobscope {

// Over gRPC's C interface, because the C++ one reads certificates once, or pays for it with a
// thread that wakes up for ever. Must outlive the server that it was given to: gRPC asks it for
// certificates whenever somebody connects.
class PortCredentials final : public grpc::ServerCredentials {
 public:
  // TLS. `token` may be null: none is wanted.
  PortCredentials(std::shared_ptr<CertificateWatch> certificates,
                  std::shared_ptr<TokenCheck> token);
  // A token in clear text, to who comes from this host.
  PortCredentials(grpc_local_connect_type type, std::shared_ptr<TokenCheck> token);
  ~PortCredentials() override;

  // Not for this class: the token is its own to check.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override;
  static grpc_ssl_certificate_config_reload_status FetchCertificate(
      void* credentials, grpc_ssl_server_certificate_config** config);
  void AskForToken(std::shared_ptr<TokenCheck> token);

  const std::shared_ptr<CertificateWatch> certificates_;
  std::atomic<uint64_t> version_{0};  // of the certificate that gRPC has
  grpc_server_credentials* credentials_ = nullptr;
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_PORT_CREDENTIALS_H_
