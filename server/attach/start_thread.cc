// SPDX-License-Identifier: Apache-2.0
#include "server/attach/start_thread.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "common/process/blocked_signal.h"
#include "common/text/utc_text.h"
#include "jobscope/jobscope_c.h"

namespace jobscope::attach {
namespace {

constexpr char kLibrarySoname[] = "libjobscope.so";

// How long a fork waits for a load or start in progress. Those take 3 ms, 7 ms beside PyTorch, and
// more than 100 ms where five other processes compute on two processors. Bounded, because the
// forking thread may itself hold the loader's lock.
constexpr int kMaxForkWaitMs = 1'000;

sem_t wake;
std::atomic<bool> has_thread{false};
// Held by the thread while it loads and starts: a child forked meanwhile would inherit a locked
// loader lock without its owner, and a listener that its fork handler does not know yet.
pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
// The thread that holds `starting` for its fork. Read by other threads that fork, and in children.
std::atomic<pthread_t> fork_holder{};
// The server library's jobscope_forked_child. The C library does not run handlers in the child that
// were registered after the fork had begun, and a start may complete between the two, so the child
// of such a fork calls it itself.
std::atomic<void (*)()> leave_server_in_child{nullptr};
std::atomic<bool> started{false};  // no fork needs to wait any more

timespec In(clockid_t clock, int ms) {
  timespec time;
  clock_gettime(clock, &time);
  time.tv_sec += ms / 1000;
  time.tv_nsec += static_cast<long>(ms % 1000) * 1'000'000;
  if (time.tv_nsec >= 1'000'000'000) {
    time.tv_nsec -= 1'000'000'000;
    ++time.tv_sec;
  }
  return time;
}

void BeforeFork() {
  if (started.load(std::memory_order_acquire)) return;
  const int saved_errno = errno;
  const timespec end = In(CLOCK_MONOTONIC, kMaxForkWaitMs);
  if (pthread_mutex_clocklock(&starting, CLOCK_MONOTONIC, &end) == 0) {
    fork_holder = pthread_self();
  }
  errno = saved_errno;
}

void AfterForkInParent() {
  if (fork_holder != pthread_self()) return;
  fork_holder = pthread_t{};
  pthread_mutex_unlock(&starting);
}

// The child has no such thread, and nothing locks the mutex again.
void AfterForkInChild() {
  if (void (*const leave_server)() = leave_server_in_child.load()) leave_server();
  started = true;
}

void Delay(int ms) {
  const timespec end = In(CLOCK_MONOTONIC, ms);
  while (sem_clockwait(&wake, CLOCK_MONOTONIC, &end) != 0 && errno == EINTR) {
  }
}

void LoadAndStart(const StartPlan& plan) {
  // A data loader or subprocess: the port is taken by the worker itself.
  const bool quiet = plan.above == Above::kNoRole && IsTaken(plan.address, plan.local_rank);
  if (quiet) {
    Say(plan.log_level, LogLevel::kInfo,
        "not attached: the process that started this one serves %s", plan.address);
    return;
  }
  void* const library = LoadServerLibrary(plan);
  if (library == nullptr) {
    const char* const reason = dlerror();
    Say(plan.log_level, LogLevel::kWarning,
        "not attached: %s; install libjobscope.so beside libjobscope_attach.so",
        reason == nullptr ? "libjobscope.so cannot be loaded" : reason);
    return;
  }
  const auto start =
      reinterpret_cast<decltype(&jobscope_server_start)>(dlsym(library, "jobscope_server_start"));
  if (start == nullptr) {
    Say(plan.log_level, LogLevel::kWarning,
        "not attached: %s has no jobscope_server_start: it is not the server's library",
        plan.library);
    return;
  }
  leave_server_in_child =
      reinterpret_cast<decltype(&jobscope_forked_child)>(dlsym(library, "jobscope_forked_child"));
  jobscope_server_options options;
  memset(&options, 0, sizeof(options));
  options.size = sizeof(options);
  options.address = plan.address;
  char error[1024] = "";
  const int code = start(&options, nullptr, 0, error, sizeof(error));
  if (code == JOBSCOPE_OK) return;  // the library has logged where it listens
  // Busy: the program already has a server of its own. A helper process of a worker cannot have its
  // address, whatever IsTaken could find out.
  const bool launcher_above = code == JOBSCOPE_E_ADDRESS && plan.above == Above::kOther;
  const bool helper = code == JOBSCOPE_E_ADDRESS && plan.above == Above::kNoRole;
  Say(plan.log_level, code == JOBSCOPE_E_BUSY || helper ? LogLevel::kInfo : LogLevel::kWarning,
      "not attached: %s%s", error,
      launcher_above
          ? "; if the process that started this one holds it and is not a worker, exclude "
            "that one by its name: JOBSCOPE_PROGRAMS='!launch.py'"
          : "");
}

void* RunThread(void* argument) {
  const auto& plan = *static_cast<const StartPlan*>(argument);
  pthread_setname_np(pthread_self(), "jobscope-attach");
  Delay(plan.delay_ms);
  pthread_mutex_lock(&starting);
  LoadAndStart(plan);
  started = true;
  pthread_mutex_unlock(&starting);
  return nullptr;
}

const char* Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
    case LogLevel::kOff:
      break;
  }
  return "off";
}

}  // namespace

bool StartServerLater(const StartPlan* plan) {
  if (sem_init(&wake, 0, 0) != 0) return false;
  sigset_t blocked;
  sigfillset(&blocked);
  constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  for (const int fault : kFaults) {
    sigdelset(&blocked, fault);
  }
  // Fails only if memory runs out; forks then do not wait.
  pthread_atfork(&BeforeFork, &AfterForkInParent, &AfterForkInChild);
  sigset_t previous;
  pthread_sigmask(SIG_SETMASK, &blocked, &previous);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  const bool created =
      pthread_create(&thread, &attributes, &RunThread, const_cast<StartPlan*>(plan)) == 0;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  has_thread.store(created, std::memory_order_release);
  return created;
}

void StartServerNow() {
  if (has_thread.load(std::memory_order_acquire)) sem_post(&wake);
}

void* LoadServerLibrary(const StartPlan& plan) {
  void* const loaded = dlopen(kLibrarySoname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  return loaded != nullptr ? loaded : dlopen(plan.library, RTLD_NOW | RTLD_LOCAL);
}

void Say(LogLevel threshold, LogLevel level, const char* format, ...) {
  if (level < threshold) return;
  char line[2048];
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  char time[jobscope::kUtcTextBytes];
  jobscope::FormatUtc(int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000, time);
  auto length = static_cast<size_t>(snprintf(line, sizeof(line), "%s jobscope[%d] %s: ", time,
                                             static_cast<int>(getpid()), Name(level)));
  va_list arguments;
  va_start(arguments, format);
  const int text = vsnprintf(line + length, sizeof(line) - length - 1, format, arguments);
  va_end(arguments);
  if (text < 0) return;
  length += static_cast<size_t>(text);
  if (length > sizeof(line) - 2) length = sizeof(line) - 2;
  for (size_t i = 0; i < length; ++i) {
    if (line[i] == '\n' || line[i] == '\r') line[i] = ' ';
  }
  line[length] = '\n';
  // Write errors cannot be reported. If standard error is a pipe without a reader, the program must
  // not end because of our line.
  BlockedSignal sigpipe(SIGPIPE);
  if (write(STDERR_FILENO, line, length + 1) < 0 && errno == EPIPE) sigpipe.Raised();
}

}  // namespace jobscope::attach
