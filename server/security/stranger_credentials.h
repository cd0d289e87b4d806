// SPDX-License-Identifier: Apache-2.0
//
// Refuses the requests of accepted connections with a reason.
#ifndef SERVER_SECURITY_STRANGER_CREDENTIALS_H_
#define SERVER_SECURITY_STRANGER_CREDENTIALS_H_

#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

namespace jobscope {

// Plain HTTP/2. Every request, of every service, whether the method exists or not, ends with
// PERMISSION_DENIED and `reason` once its headers have arrived.
class StrangerCredentials final : public grpc::ServerCredentials {
 public:
  explicit StrangerCredentials(std::string reason);
  ~StrangerCredentials() override;

  // Does nothing: this class has its own check.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override;

  grpc_server_credentials* const credentials_;
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_STRANGER_CREDENTIALS_H_
