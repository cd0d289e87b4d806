// SPDX-License-Identifier: Apache-2.0
//
// Removes the server from forked children, completely and permanently.
//
// A forked child inherits the listening socket and the accepted connections, but none of gRPC's
// threads. Left open, they keep the port taken after the parent's death, with clients waiting in a
// queue that nobody reads; and a shutdown() in the child acts on the shared socket, which silently
// ends the parent's listener. So the child closes them before fork() returns to it, and refuses to
// start a server from then on: gRPC cannot be restarted in the image of a process that used it.
//
// exec'ed children need none of this: gRPC's sockets are close-on-exec. For the same reason vfork
// and posix_spawn, which run no handler, are safe.
#ifndef SERVER_GUARD_FORK_GUARD_H_
#define SERVER_GUARD_FORK_GUARD_H_

#include <string_view>
#include <utility>

namespace jobscope {

// Registers the fork handler, once per process; further calls do nothing. Each entry of the C ABI
// that starts a thread calls it before it takes a lock: a child forked before that call may use the
// library, a child forked later is refused. The code that contains it must stay loaded (`-z
// nodelete`).
void InstallForkGuard();

// While it lives, forked children close the sockets of one listener (itself and those it accepted).
// Movable.
class ListenerGuard {
 public:
  // Takes the address as bound: "127.0.0.1:40123", "[::1]:40123", "0.0.0.0:6009", "[::]:6009" or
  // "unix:/path". A host that is not numeric stands for every local address. Call it in the
  // ForkPause in which the listener is bound: from then on a child may inherit it.
  explicit ListenerGuard(std::string_view bound_address);
  // Destroy it after the server has ended.
  ~ListenerGuard();
  ListenerGuard(ListenerGuard&& other) noexcept : index_(std::exchange(other.index_, -1)) {}
  ListenerGuard& operator=(ListenerGuard&&) = delete;

  // Returns false if 8 others live, or if the text is not an address.
  bool held() const { return index_ >= 0; }

 private:
  int index_ = -1;
};

// Returns true in a child forked (also by a raw clone()) after InstallForkGuard(), in which no
// server, no capture, no gRPC and no thread of ours may run. Async-signal-safe.
bool InForkedChild();

// Closes the server's inherited sockets in a forked child. For children whose fork began before
// InstallForkGuard(): the fork handler does not run in them. Does nothing elsewhere.
// Async-signal-safe.
void LeaveServerInChild();

// Error text of JOBSCOPE_E_FORKED.
inline constexpr char kForkedText[] =
    "this process was forked from one that had started the profiler server, so it cannot have its "
    "own: "
    "start the server in the child first, before the parent does, or create the child by spawn or "
    "exec";

}  // namespace jobscope

#endif  // SERVER_GUARD_FORK_GUARD_H_
