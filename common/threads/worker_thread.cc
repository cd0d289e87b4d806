// SPDX-License-Identifier: Apache-2.0
#include "common/threads/worker_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/log/log.h"
#include "common/process/headroom.h"
#include "common/process/process_cpus.h"
#include "common/status/error_reason.h"
#include "common/sync/mutex.h"

namespace jobscope {
namespace {

// Python and the frameworks' profilers run on our threads and expect the usual `ulimit -s`.
constexpr size_t kStackBytes = size_t{8} << 20;

// Blocks the application's signals in this thread, and so in the threads that it creates, while it
// exists.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) {
      sigdelset(&blocked, fault);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t previous_;
};

// Creates a joinable thread. Returns 0 or an errno.
int CreateThread(size_t stack_bytes, void* (*body)(void*), void* argument, pthread_t* thread) {
  pthread_attr_t attributes;
  if (const int error = pthread_attr_init(&attributes); error != 0) return error;
  if (stack_bytes != 0) pthread_attr_setstacksize(&attributes, stack_bytes);
  const int error = pthread_create(thread, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

// Returns the id of a joinable thread, 0 if it has ended. The C library knows it before the thread
// runs, but has no function for it (glibc has one since 2.42). The id of the thread's clock
// contains it, in the kernel's format.
pid_t IdOf(pthread_t thread) {
  clockid_t clock = 0;
  if (pthread_getcpuclockid(thread, &clock) != 0) return 0;
  return ~(clock >> 3);
}

// Lets glibc give this thread a heap. A thread that has none when memory is short gets no part of
// the other heaps either: its allocations fail. Volatile: the compiler would remove the calls.
void ReserveHeap() {
  void* const volatile heap = std::malloc(1);
  std::free(heap);
}

struct Launch {
  std::string name;
  CpuSet cpus;
  absl::AnyInvocable<void()> body;
};

void* RunLaunch(void* argument) {
  const std::unique_ptr<Launch> launch(static_cast<Launch*>(argument));
  ReserveHeap();
  pthread_setname_np(pthread_self(), launch->name.c_str());
  launch->cpus.ApplyToThisThread();
  (void)fesetenv(FE_DFL_ENV);
  const int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;
  if (policy == SCHED_FIFO || policy == SCHED_RR) {
    const sched_param ordinary = {};
    (void)sched_setscheduler(0, SCHED_OTHER, &ordinary);
  }
  // Not `...`: Python ends threads that acquire the GIL too late by unwinding their stack, and that
  // must not be stopped.
  try {
    launch->body();
  } catch (const std::exception& error) {
    Log(LogLevel::kError, "a thread of the profiler has ended early: out of memory");
  }
  // The C library frees the last message only after a sanitizer has forgotten this thread: a
  // program that ended in between would have a leak.
  while (dlerror() != nullptr) {
  }
  return nullptr;
}

// Keeps threads alive until all have been counted, and have their heap: a thread takes that of one
// that has ended.
struct Probe {
  bool reserves_heaps = false;
  Mutex mutex;
  CondVar changed;
  size_t ready ABSL_GUARDED_BY(mutex) = 0;
  bool ended ABSL_GUARDED_BY(mutex) = false;

  static void* Wait(void* argument) {
    auto* const probe = static_cast<Probe*>(argument);
    if (probe->reserves_heaps) ReserveHeap();
    const MutexLock lock(&probe->mutex);
    ++probe->ready;
    probe->changed.NotifyAll();
    probe->changed.Wait(&probe->mutex, [probe]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(probe->mutex) {
      return probe->ended;
    });
    return nullptr;
  }
};

}  // namespace

absl::Status StartWorkerThread(const char* name, absl::AnyInvocable<void()> body, pid_t* tid) {
  auto launch = std::make_unique<Launch>();
  launch->name = std::string(name).substr(0, 15);
  launch->cpus = ProcessCpus();
  launch->body = std::move(body);
  int error = 0;
  pthread_t thread;
  {
    const SignalsBlocked blocked;
    error = CreateThread(kStackBytes, &RunLaunch, launch.get(), &thread);
    // The thread-local variables of all libraries lie on the stack and do not fit.
    if (error == EINVAL) error = CreateThread(0, &RunLaunch, launch.get(), &thread);
  }
  if (error != 0) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "cannot start the thread ", name, ": ", strerror(error),
            "; raise the limit on processes (ulimit -u, pids.max) or on memory (ulimit -v)")),
        ErrorReason::kProcessLimit);
  }
  (void)launch.release();  // the thread owns it
  if (tid != nullptr) *tid = IdOf(thread);
  pthread_detach(thread);
  return absl::OkStatus();
}

size_t ThreadStackBytes() {
  size_t bytes = 0;
  pthread_attr_t defaults;
  if (pthread_attr_init(&defaults) == 0) {
    pthread_attr_getstacksize(&defaults, &bytes);
    pthread_attr_destroy(&defaults);
  }
  return std::max(bytes, kStackBytes);
}

size_t FreeThreads(size_t wanted, bool reserve_heaps) {
  if (SurelyHasThreads(wanted)) return wanted;
  const size_t stack_bytes = ThreadStackBytes();  // gRPC's threads have the default size
  Probe probe;
  probe.reserves_heaps = reserve_heaps;
  std::vector<pthread_t> threads;
  threads.reserve(wanted);
  {
    const SignalsBlocked blocked;
    while (threads.size() < wanted) {
      pthread_t thread;
      if (CreateThread(stack_bytes, &Probe::Wait, &probe, &thread) != 0) break;
      threads.push_back(thread);
    }
  }
  {
    const MutexLock lock(&probe.mutex);
    const size_t created = threads.size();
    probe.changed.Wait(&probe.mutex, [&probe, created]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                                         probe.mutex) { return probe.ready == created; });
    probe.ended = true;
    probe.changed.NotifyAll();
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  return threads.size();
}

}  // namespace jobscope
