// SPDX-License-Identifier: Apache-2.0
#include "server/grpc_server/door.h"

#include <sys/socket.h>
#include <unistd.h>

namespace jobscope {

void Door::HandOver(int listener_fd, int fd, bool admitted) const {
  const External& way = admitted ? open : strangers;
  if (way == nullptr) {
    shutdown(fd, SHUT_RDWR);
    close(fd);
    return;
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
  connection.listener_fd = listener_fd;
  connection.fd = fd;
  way->HandleNewConnection(&connection);
}

}  // namespace jobscope
