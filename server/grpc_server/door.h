// SPDX-License-Identifier: Apache-2.0
//
// Passes accepted connections to gRPC.
#ifndef SERVER_GRPC_SERVER_DOOR_H_
#define SERVER_GRPC_SERVER_DOOR_H_

#include <grpcpp/server_builder.h>

#include <memory>

namespace jobscope {

// How the connections of one listener enter gRPC. Copies share the ways.
struct Door {
  using External = std::shared_ptr<grpc::experimental::ExternalConnectionAcceptor>;

  // Takes ownership of `fd`. Closes it if its peer is not admitted and `strangers` is null: with
  // TLS there is no way to send the reason.
  void HandOver(int listener_fd, int fd, bool admitted) const;

  External open;
  External strangers;  // answers refused callers with the reason; may be null
  bool checks_users = false;
};

}  // namespace jobscope

#endif  // SERVER_GRPC_SERVER_DOOR_H_
