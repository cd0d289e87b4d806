// SPDX-License-Identifier: Apache-2.0
//
// Gives a gRPC server credentials of gRPC's C interface.
#ifndef SERVER_SECURITY_C_CREDENTIALS_H_
#define SERVER_SECURITY_C_CREDENTIALS_H_

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/version_info.h>

#include <memory>
#include <string>

namespace jobscope {

// Takes ownership of what it is constructed with.
class CCredentials : public grpc::ServerCredentials {
 public:
  // Does nothing: the C credentials have their own check.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<grpc::AuthMetadataProcessor>& /*processor*/) override {}

 protected:
#if GRPC_CPP_VERSION_MAJOR > 1 || GRPC_CPP_VERSION_MINOR >= 64
  using grpc::ServerCredentials::ServerCredentials;  // gRPC's own class does the rest
#else
  explicit CCredentials(grpc_server_credentials* credentials) : credentials_(credentials) {}
  ~CCredentials() override { grpc_server_credentials_release(credentials_); }

  grpc_server_credentials* c_creds() const { return credentials_; }

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
#endif
};

}  // namespace jobscope

#endif  // SERVER_SECURITY_C_CREDENTIALS_H_
