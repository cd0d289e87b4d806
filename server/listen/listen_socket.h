// SPDX-License-Identifier: Apache-2.0
//
// Opens a listening socket of the server's own, before gRPC is used.
#ifndef SERVER_LISTEN_LISTEN_SOCKET_H_
#define SERVER_LISTEN_LISTEN_SOCKET_H_

#include <sys/types.h>

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "server/listen/listen_address.h"

namespace jobscope {

// Who may write to a Unix socket, and so connect.
enum class UnixSocketMode {
  kOwner,  // 0600, whatever the umask
  kUmask,  // as the umask leaves it
  kAll,    // 0666, whatever the umask
};

struct ListenSocketOptions {
  // Time limit for data that the peer does not acknowledge, on every accepted TCP connection; 0:
  // the system's default.
  int user_timeout_ms = 0;
  UnixSocketMode unix_mode = UnixSocketMode::kOwner;
};

// Owns the descriptor and, for a unix socket, the file. Movable. Not thread-safe.
class ListenSocket {
 public:
  // Binds and listens; close-on-exec, non-blocking, without SO_REUSEPORT. With port 0 the kernel
  // chooses. A wildcard address of either family serves both if the host has IPv6. Replaces the
  // file of a unix socket on which no process listens; its mode is never wider than requested, and
  // the umask is left unchanged because it belongs to the whole process. Does not block on any
  // peer. Returns ALREADY_EXISTS (another process listens there) or UNAVAILABLE (cannot be bound,
  // also because the file is not a socket).
  static absl::StatusOr<ListenSocket> Open(const BindTarget& target,
                                           const ListenSocketOptions& options);

  // Stops listening. Removes the unix socket's file, unless another socket has replaced it.
  ~ListenSocket();
  ListenSocket(ListenSocket&& other) noexcept;
  ListenSocket& operator=(ListenSocket&& other) = delete;

  // Closes and removes nothing at the end: the number is another's. fd() is then -1.
  void Abandon() { fd_ = -1; }

  int fd() const { return fd_; }
  // The address as bound, with the actual port.
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
