// SPDX-License-Identifier: Apache-2.0
//
// Configures the OpenSSL and the gRPC inside libjobscope.so, because they run in a foreign process.
// Runs when the library is loaded, before anything could initialise the two. Not for shared copies.
#include <grpc/support/time.h>
#include <openssl/crypto.h>

#include <atomic>

// Not in an installed header. gRPC 1.51 offers it to its Python binding, which decides the same
// way.
namespace grpc_core {
class Fork {
 public:
  static void Enable(bool enable);
};
}  // namespace grpc_core

namespace {

__attribute__((constructor)) void ConfigurePrivateCopies() {
  // OpenSSL frees its tables in an exit handler, but the server's threads live until the process is
  // gone: a TLS connection that is in use then would read freed memory.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  // GRPC_ENABLE_FORK_SUPPORT is meant for the application's gRPC. Ours is dead in a forked child
  // anyway (server/guard/fork_guard.h), and its fork handlers would stop and restart the threads of
  // the parent's server at each fork.
  grpc_core::Fork::Enable(false);
}

}  // namespace

// gRPC 1.51 calls it in one place: each of its polling threads that heard nothing for 1 s. They all
// began together, so that they all would sleep at the same time, and a request that comes then
// would wait for up to 100 ms. One of them sleeps at a time; the others go on polling.
extern "C" {
// Where the linker sends the calls (--wrap=gpr_sleep_until), and what they called.
void __real_gpr_sleep_until(gpr_timespec until);
void __wrap_gpr_sleep_until(gpr_timespec until) {
  static std::atomic<bool> one_sleeps{false};
  if (one_sleeps.exchange(true)) return;
  __real_gpr_sleep_until(until);
  one_sleeps = false;
}
}
