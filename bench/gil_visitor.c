// SPDX-License-Identifier: Apache-2.0
//
// A library to preload into Python programs, the control of gloo_exit_bench.py: once, from a thread
// of its own, it acquires the GIL and registers an `atexit` function that does nothing.
// libjobscope.so does this in every Python process that it is preloaded into; this library does
// nothing else.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

// Times of the search for the interpreter, as in libjobscope.so.
enum { kLooks = 10, kAttachDelayMs = 20, kFirstPauseMs = 50 };

static void SleepMs(long ms) {
  const struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&pause, NULL);
}

// Returns whether the interpreter was there.
static int Visit(void) {
  int (*is_initialized)(void) = dlsym(RTLD_DEFAULT, "Py_IsInitialized");
  int (*ensure)(void) = dlsym(RTLD_DEFAULT, "PyGILState_Ensure");
  void (*release)(int) = dlsym(RTLD_DEFAULT, "PyGILState_Release");
  int (*run)(const char*) = dlsym(RTLD_DEFAULT, "PyRun_SimpleString");
  if (is_initialized == NULL || ensure == NULL || release == NULL || run == NULL) return 0;
  if (!is_initialized()) return 0;
  const int state = ensure();
  run("__import__('atexit').register(bool)");
  release(state);
  return 1;
}

static void* VisitWhenThere(void* unused) {
  SleepMs(kAttachDelayMs);
  long pause_ms = kFirstPauseMs;
  for (int look = 1; !Visit() && look < kLooks; ++look) {
    SleepMs(pause_ms);
    pause_ms *= 2;
  }
  return unused;
}

__attribute__((constructor)) static void Start(void) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  if (pthread_create(&thread, NULL, &VisitWhenThere, NULL) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}
