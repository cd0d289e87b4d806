// SPDX-License-Identifier: Apache-2.0
//
// A slow link: preloaded into a rank, delays what gloo sends (`writev` of some hundred bytes and
// more on a socket). Off until slow_link_set.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

// Shorter messages are those by which ranks tell each other that they are ready.
static const size_t kMinBytes = 512;

static _Atomic uint64_t g_delay_ns;
static _Atomic uint64_t g_slept_ns;
static _Atomic uint64_t g_sent;

static uint64_t Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

__attribute__((visibility("default"))) void slow_link_set(uint64_t delay_ns) {
  atomic_store(&g_delay_ns, delay_ns);
}

// How long messages were delayed since the start of the process.
__attribute__((visibility("default"))) uint64_t slow_link_slept_ns(void) {
  return atomic_load(&g_slept_ns);
}

// How many messages could have been delayed since the start of the process.
__attribute__((visibility("default"))) uint64_t slow_link_sent(void) {
  return atomic_load(&g_sent);
}

static size_t Bytes(const struct iovec* parts, int count) {
  size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
  return bytes;
}

static int IsSocket(int fd) {
  int type = 0;
  socklen_t size = sizeof(type);
  const int error = errno;
  const int is_socket = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
  errno = error;
  return is_socket;
}

__attribute__((visibility("default"))) ssize_t writev(int fd, const struct iovec* parts,
                                                      int count) {
  static ssize_t (*_Atomic next)(int, const struct iovec*, int);
  if (next == NULL) next = (ssize_t(*)(int, const struct iovec*, int))dlsym(RTLD_NEXT, "writev");
  const uint64_t delay_ns = atomic_load(&g_delay_ns);
  const int counts = Bytes(parts, count) >= kMinBytes && IsSocket(fd);
  if (counts) atomic_fetch_add(&g_sent, 1);
  if (counts && delay_ns != 0) {
    const uint64_t begin_ns = Now();
    struct timespec left = {(time_t)(delay_ns / 1000000000u), (long)(delay_ns % 1000000000u)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    atomic_fetch_add(&g_slept_ns, Now() - begin_ns);
  }
  return next(fd, parts, count);
}
