// SPDX-License-Identifier: Apache-2.0
//
// What happens to the server in a forked child: it is gone, without a trace and for good.
//
// A fork child inherits the listening socket and the accepted connections, but none of gRPC's
// threads. Left open, they keep the port taken after the parent's death, with clients waiting in a
// queue that nobody reads; and a shutdown() in the child acts on the shared socket, which silently
// ends the parent's listener. So the child closes them before fork() returns to it, and refuses a
// server from then on: gRPC cannot be restarted in the image of a process that used it.
//
// exec'ed children need none of this: gRPC's sockets are close-on-exec. vfork and posix_spawn run
// no handler, for the same reason.
#ifndef SERVER_GUARD_FORK_GUARD_H_
#define SERVER_GUARD_FORK_GUARD_H_

#include <string_view>

namespace jobscope {

// Registers the fork handler, once per process; more calls do nothing. Each entry of the C ABI that
// starts a thread calls it before it takes a lock: a child forked before that call may use the
// library, a child forked later is refused. The code that contains it must stay loaded (`-z
// nodelete`).
void InstallForkGuard();

// Names a listener whose sockets (it and what it accepted) forked children close: an address as it
// was really bound, "127.0.0.1:40123", "[::1]:40123", "0.0.0.0:6009", "[::]:6009" or "unix:/path".
// A host that is not numeric stands for every local address. At most 8 listeners; false if there
// are more, or if the text is no address. Call it in the ForkPause in which the listener is bound:
// from then on a child may inherit it. Not thread-safe with itself.
bool GuardListener(std::string_view bound_address);

// After the server has ended: forked children leave all sockets alone.
void UnguardListeners();

// True in a child forked (also by a raw clone()) after InstallForkGuard(): no server, no capture,
// no gRPC, no thread of ours. Async-signal-safe.
bool InForkedChild();

// The text for JOBSCOPE_E_FORKED.
inline constexpr char kForkedText[] =
    "this process was forked from one that had started the profiler server, so it cannot have its "
    "own: "
    "start the server in the child first, before the parent does, or create the child by spawn or "
    "exec";

}  // namespace jobscope

#endif  // SERVER_GUARD_FORK_GUARD_H_
