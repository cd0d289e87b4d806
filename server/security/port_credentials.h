// SPDX-License-Identifier: Apache-2.0
//
// Sets what gRPC requires of every caller of one port.
#ifndef SERVER_SECURITY_PORT_CREDENTIALS_H_
#define SERVER_SECURITY_PORT_CREDENTIALS_H_

#include <grpc/grpc_security.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "server/security/allowed_names.h"
#include "server/security/audit.h"
#include "server/security/c_credentials.h"
#include "server/security/certificate_watch.h"
#include "server/security/token_check.h"

namespace jobscope {

// What each request must present, on a connection that is established.
struct CallerChecks {
  std::shared_ptr<TokenCheck> token;  // null: none is required
  AllowedNames allowed_names;         // of the caller's certificate
  std::shared_ptr<AuditLog> audit;    // of those that are refused
};

// Uses gRPC's C interface, because the C++ one reads certificates only once, or needs a thread that
// polls for ever. Must outlive its server: gRPC fetches certificates from it whenever a caller
// connects.
class PortCredentials final : public CCredentials {
 public:
  // TLS.
  PortCredentials(std::shared_ptr<CertificateWatch> certificates, CallerChecks checks);
  // A token in clear text, for callers from this host.
  PortCredentials(grpc_local_connect_type type, CallerChecks checks);

 private:
  static grpc_ssl_certificate_config_reload_status FetchCertificate(
      void* credentials, grpc_ssl_server_certificate_config** config);
  void CheckCallers(CallerChecks checks);

  const std::shared_ptr<CertificateWatch> certificates_;
  std::atomic<uint64_t> version_{0};  // of the certificate that gRPC has
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_PORT_CREDENTIALS_H_
