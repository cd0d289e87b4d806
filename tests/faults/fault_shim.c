/* SPDX-License-Identifier: Apache-2.0
 *
 * For LD_PRELOAD: a REALTIME clock that is stepped from outside, and a disk on which rename fails.
 *   FAULT_CLOCK_FILE    holds an int64_t: nanoseconds that are added to REALTIME. Waits until a
 *                       time of that clock end by it, as the kernel ends them when its clock is
 *                       stepped
 *   FAULT_RENAME_SUFFIX rename() to a name that ends so fails with ENOSPC
 *   FAULT_KILL_SUFFIX   rename() to a name that ends so kills the process
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t* g_shift_ns;
static int (*g_clock_gettime)(clockid_t, struct timespec*);

__attribute__((constructor)) static void Map(void) {
  g_clock_gettime = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const char* path = getenv("FAULT_CLOCK_FILE");
  if (path == NULL) return;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void* const mapped = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  if (mapped != MAP_FAILED) g_shift_ns = (const volatile int64_t*)mapped;
  close(fd);
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock_id, struct timespec* tp) {
  if (g_clock_gettime == NULL) Map(); /* called by another library's constructor */
  const int result = g_clock_gettime(clock_id, tp);
  if (result != 0 || g_shift_ns == NULL) return result;
  if (clock_id != CLOCK_REALTIME && clock_id != CLOCK_REALTIME_COARSE) return result;
  const int64_t ns = (int64_t)tp->tv_sec * 1000000000 + tp->tv_nsec + *g_shift_ns;
  tp->tv_sec = ns / 1000000000;
  tp->tv_nsec = ns % 1000000000;
  return 0;
}

/* A wait is cut into slices, after each of which the clock is looked at. */
#define SLICE_NS 20000000
#define SECOND_NS 1000000000

static int64_t Ns(const struct timespec* time) {
  return (int64_t)time->tv_sec * SECOND_NS + time->tv_nsec;
}

/* True: `deadline`, of the stepped clock, has passed. Otherwise `slice` is when to look again, on
 * the kernel's. */
static int NextSlice(const struct timespec* deadline, struct timespec* slice) {
  struct timespec now;
  g_clock_gettime(CLOCK_REALTIME, &now);
  const int64_t left_ns = Ns(deadline) - *g_shift_ns - Ns(&now);
  if (left_ns <= 0) return 1;
  const int64_t until_ns = Ns(&now) + (left_ns < SLICE_NS ? left_ns : SLICE_NS);
  slice->tv_sec = until_ns / SECOND_NS;
  slice->tv_nsec = until_ns % SECOND_NS;
  return 0;
}

/* Abseil waits so. */
__attribute__((visibility("default"))) long syscall(long sysno, ...) {
  static long (*original)(long, ...);
  if (original == NULL) original = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  long a[6];
  va_list arguments;
  va_start(arguments, sysno);
  for (int i = 0; i < 6; ++i) a[i] = va_arg(arguments, long);
  va_end(arguments);
  /* NOLINTNEXTLINE(performance-no-int-to-ptr): system calls take all arguments as numbers */
  const struct timespec* const deadline = (const struct timespec*)a[3];
  if (sysno != SYS_futex || g_shift_ns == NULL || (a[1] & FUTEX_CLOCK_REALTIME) == 0 ||
      (a[1] & FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET || deadline == NULL) {
    return original(sysno, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  for (;;) {
    struct timespec slice;
    if (NextSlice(deadline, &slice)) {
      errno = ETIMEDOUT;
      return -1;
    }
    const long result = original(sysno, a[0], a[1], a[2], &slice, a[4], a[5]);
    if (result == 0 || errno != ETIMEDOUT) return result;
  }
}

/* The clock of a condition is unknown here: a time of MONOTONIC is small. */
__attribute__((visibility("default"))) int pthread_cond_timedwait(pthread_cond_t* cond,
                                                                  pthread_mutex_t* mutex,
                                                                  const struct timespec* abstime) {
  static int (*original)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*);
  if (original == NULL) {
    original = (int (*)(pthread_cond_t*, pthread_mutex_t*, const struct timespec*))dlsym(
        RTLD_NEXT, "pthread_cond_timedwait");
  }
  if (g_shift_ns == NULL || abstime->tv_sec < SECOND_NS) {
    return original(cond, mutex, abstime);
  }
  for (;;) {
    struct timespec slice;
    if (NextSlice(abstime, &slice)) return ETIMEDOUT;
    const int result = original(cond, mutex, &slice);
    if (result != ETIMEDOUT) return result;
  }
}

static int EndsIn(const char* name, const char* variable) {
  const char* const suffix = getenv(variable);
  return suffix != NULL && strlen(name) >= strlen(suffix) &&
         strcmp(name + strlen(name) - strlen(suffix), suffix) == 0;
}

__attribute__((visibility("default"))) int rename(const char* old, const char* new) {
  if (EndsIn(new, "FAULT_KILL_SUFFIX")) raise(SIGKILL);
  if (EndsIn(new, "FAULT_RENAME_SUFFIX")) {
    errno = ENOSPC;
    return -1;
  }
  static int (*original)(const char*, const char*);
  if (original == NULL) {
    original = (int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename");
  }
  return original(old, new);
}
