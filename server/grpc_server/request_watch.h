// SPDX-License-Identifier: Apache-2.0
//
// Watches the requests that gRPC admits.
#ifndef SERVER_GRPC_SERVER_REQUEST_WATCH_H_
#define SERVER_GRPC_SERVER_REQUEST_WATCH_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <utility>

#include "server/listen/acceptor.h"
#include "server/rpc/peer.h"

namespace jobscope {

// Tells the acceptor of each request that gRPC admits, including health's. Intercepts none.
class RequestWatch : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit RequestWatch(std::shared_ptr<Acceptor> acceptor) : acceptor_(std::move(acceptor)) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* request) override {
    acceptor_->NoteRequest(ReadablePeer(request->server_context()->peer()));
    return nullptr;
  }

 private:
  const std::shared_ptr<Acceptor> acceptor_;
};

}  // namespace jobscope

#endif  // SERVER_GRPC_SERVER_REQUEST_WATCH_H_
