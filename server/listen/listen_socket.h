// SPDX-License-Identifier: Apache-2.0
//
// A listening socket of the server's own: bound before gRPC is touched.
#ifndef SERVER_LISTEN_LISTEN_SOCKET_H_
#define SERVER_LISTEN_LISTEN_SOCKET_H_

#include <sys/types.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/listen/listen_address.h"

namespace jobscope {

struct ListenSocketOptions {
  // Of data that the peer does not acknowledge, on every accepted TCP connection; 0: the system's.
  int user_timeout_ms = 0;
  // A unix socket gets the mode that the umask leaves, instead of 0600.
  bool open_to_all = false;
};

// Owns the descriptor and, of a unix socket, the file. Movable, not thread-safe.
class ListenSocket {
 public:
  // Binds and listens; close-on-exec, non-blocking, without SO_REUSEPORT. Port 0 lets the kernel
  // choose. A wildcard address of either family serves both where the host has IPv6. A unix
  // socket's file that nobody serves is replaced; its mode is 0600 from the first instant, whatever
  // the umask, which is not touched: it belongs to the whole process. Blocks for no peer. Errors:
  // ALREADY_EXISTS (somebody listens there, or a file that is no socket lies there), UNAVAILABLE
  // (cannot be bound).
  static absl::StatusOr<ListenSocket> Open(const BindTarget& target,
                                           const ListenSocketOptions& options);

  // Stops listening. Removes the unix socket's file, unless another socket has taken its place.
  ~ListenSocket();
  ListenSocket(ListenSocket&& other) noexcept;
  ListenSocket& operator=(ListenSocket&& other) = delete;

  int fd() const { return fd_; }
  // As bound: with the real port.
  const BindTarget& target() const { return target_; }

 private:
  ListenSocket(int fd, BindTarget target) : fd_(fd), target_(std::move(target)) {}
  static absl::StatusOr<ListenSocket> OpenUnix(const BindTarget& target,
                                               const ListenSocketOptions& options);
  static absl::StatusOr<ListenSocket> OpenTcp(const BindTarget& target,
                                              const ListenSocketOptions& options);

  int fd_ = -1;
  BindTarget target_;
  std::string path_;  // of a unix socket
  dev_t device_ = 0;  // of its file
  ino_t inode_ = 0;
};

}  // namespace jobscope

#endif  // SERVER_LISTEN_LISTEN_SOCKET_H_
