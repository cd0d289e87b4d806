// SPDX-License-Identifier: Apache-2.0
//
// Accepts the connections of the server, within a bound on descriptors, and gives them to gRPC.
#ifndef SERVER_LISTEN_ACCEPTOR_H_
#define SERVER_LISTEN_ACCEPTOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/limits.h"
#include "server/listen/listen_socket.h"

namespace jobscope {

struct AcceptorLimits {
  // Descriptors of all connections together. A connection holds one, and a second one from its
  // first byte to its first request.
  size_t max_descriptors = limits::kMaxConnectionDescriptors;
  // Nothing is accepted while the process could open fewer than so many.
  size_t free_descriptors = limits::kFreeDescriptors;
  // Of a connection whose peer says nothing.
  absl::Duration silence = limits::kMaxSilence;
};

// gRPC's own listener ends for good when accept() fails once for want of a descriptor, and takes
// whoever comes. This one
//   - gives a connection to gRPC when its peer has said something: all of its protocols begin with
//     the caller, also TLS, so what stays silent costs a descriptor and nothing else;
//   - makes room for a new connection by closing the oldest one without a request, a silent one
//     first. That one has had a second for it, or less if so many wait that the last of them would
//     not get in within two;
//   - leaves peers in the kernel's queue while there is no room, or while the process is short of
//     descriptors, and looks again every 250 ms until they are accepted. It never spins or ends.
// One thread, which sleeps while nobody connects. Start and Stop are called once, in this order.
class Acceptor {
 public:
  // Gives a connection of `listeners[listener]` to gRPC; it owns `fd` from then on. Runs on the
  // acceptor's thread; must not block.
  using HandOver = std::function<void(size_t listener, int listener_fd, int fd)>;

  explicit Acceptor(std::vector<ListenSocket> listeners, const AcceptorLimits& limits = {});
  ~Acceptor();  // as Stop
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  // Begins to accept. RESOURCE_EXHAUSTED: there is no thread or descriptor for it.
  absl::Status Start(HandOver hand_over);

  // Stops listening and closes connections that gRPC does not have. Blocks for at most 2 s, in
  // practice for microseconds.
  void Stop();

  // A request of that peer ("127.0.0.1:40123", "[::1]:40123") has passed gRPC's checks: its
  // connection is no longer closed to make room. For every request. Thread-safe, from before Start
  // until after Stop; takes a lock that is held for microseconds.
  void NoteRequest(absl::string_view peer);

 private:
  class Loop;
  const std::shared_ptr<Loop> loop_;  // also the thread's
};

}  // namespace jobscope

#endif  // SERVER_LISTEN_ACCEPTOR_H_
