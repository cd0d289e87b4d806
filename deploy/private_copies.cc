// SPDX-License-Identifier: Apache-2.0
//
// Configures the OpenSSL and the gRPC inside libjobscope.so, because they run in a foreign process.
// Runs when the library is loaded, before anything could initialise the two. Not for shared copies.
#include <grpc/support/time.h>
#include <openssl/crypto.h>

#include <atomic>

// Not in an installed header. gRPC 1.51 provides it for its Python binding, which makes the same
// choice.
namespace grpc_core {
class Fork {
 public:
  static void Enable(bool enable);
};
}  // namespace grpc_core

namespace {

__attribute__((constructor)) void ConfigurePrivateCopies() {
  // OpenSSL frees its tables in an exit handler, but the server's threads live until the process
  // exits: an active TLS connection would read freed memory.
  OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);
  // GRPC_ENABLE_FORK_SUPPORT is meant for the application's gRPC. Ours is disabled in a forked
  // child anyway (server/guard/fork_guard.h), and its fork handlers would stop and restart the
  // parent server's threads at each fork.
  grpc_core::Fork::Enable(false);
}

}  // namespace

// gRPC 1.51 calls it in one place: in each of its polling threads that was idle for 1 s. They all
// started together, so all would sleep at the same time, and a request arriving then would wait for
// up to 100 ms. Here only one of them sleeps at a time; the others continue polling.
extern "C" {
// The linker redirects the calls here (--wrap=gpr_sleep_until); the first is the original.
void __real_gpr_sleep_until(gpr_timespec until);
void __wrap_gpr_sleep_until(gpr_timespec until) {
  static std::atomic<bool> one_sleeps{false};
  if (one_sleeps.exchange(true)) return;
  __real_gpr_sleep_until(until);
  one_sleeps = false;
}
}
