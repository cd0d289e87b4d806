// SPDX-License-Identifier: Apache-2.0
//
// Accepts the connections of the server, within a bound on descriptors, and passes them to gRPC.
#ifndef SERVER_LISTEN_ACCEPTOR_H_
#define SERVER_LISTEN_ACCEPTOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/listen/acceptor_limits.h"
#include "server/listen/listen_socket.h"

namespace jobscope {

// Replaces gRPC's own listener, which ends permanently when accept() fails once because no
// descriptor is free, and which accepts every connection. This one
//   - passes a connection to gRPC only when its peer has sent something: in all of its protocols,
//     including TLS, the caller sends first, so a silent connection costs one descriptor and no
//     more;
//   - makes room for a new connection by closing the oldest one without a request, silent ones
//     first. A connection has a second for its request, or less if so many wait that the last of
//     them would not be accepted within two seconds. It waits while gRPC still holds eight
//     connections that were closed;
//   - leaves peers in the kernel's queue while there is no room, or while the process is short of
//     descriptors, and retries every 250 ms until they are accepted. It never spins;
//   - closes a connection instead of passing it to gRPC while the process is short of memory;
//   - ends with a warning, and leaves all descriptors as they are, once the program has closed the
//     listener: what has its number now is the program's.
// Has one thread, which sleeps while nobody connects. Call Start once, before Stop.
class Acceptor {
 public:
  // Returns whether the peer of `fd` is admitted. Called once per connection, when the peer has
  // sent something, on the acceptor's thread. `peer` is as for NoteRequest; empty for a unix
  // socket.
  using Admit = std::function<bool(size_t listener, int fd, absl::string_view peer)>;
  // Passes a connection of `listeners[listener]` to gRPC; takes ownership of `fd`. `admitted` is
  // what Admit has returned. Runs on the acceptor's thread; must not block.
  using HandOver = std::function<void(size_t listener, int listener_fd, int fd, bool admitted)>;

  explicit Acceptor(std::vector<ListenSocket> listeners, const AcceptorLimits& limits = {});
  ~Acceptor();  // calls Stop
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Begins to accept. Without `admit`, every peer is admitted. Returns RESOURCE_EXHAUSTED if no
  // thread or descriptor is available.
  absl::Status Start(HandOver hand_over, Admit admit = nullptr);

  // Stops listening and closes connections that gRPC does not have; further calls wait for that,
  // too. Blocks for at most AcceptorLimits::stop, typically for microseconds. Thread-safe.
  void Stop();

  // Records that a request of that peer ("127.0.0.1:40123", "[::1]:40123") has passed gRPC's
  // checks: its connection is no longer closed to make room. Call it for every request.
  // Thread-safe, from before Start until after Stop; takes a lock that is held for microseconds.
  void NoteRequest(absl::string_view peer);

 private:
  class Loop;
  const std::shared_ptr<Loop> loop_;  // shared with the thread
};

}  // namespace jobscope

#endif  // SERVER_LISTEN_ACCEPTOR_H_
