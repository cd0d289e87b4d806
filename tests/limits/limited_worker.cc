// SPDX-License-Identifier: Apache-2.0
//
// A worker that starts its server under a tight limit:
//   limited_worker LIBRARY descriptors|threads|memory|none K
// `K`: descriptors that are free, threads that can be created, or MiB of address space that are
// free when the server starts. Prints "started MS ADDRESS" or "refused MS CODE TEXT", and records
// until it reads a command from its standard input:
//   take       takes all free threads, prints "taken N"
//   squeeze K  sets the limit so that K MiB of address space are free, prints "squeezed K"
//   eat K      maps all but K MiB of what the limit leaves, or unmaps it, prints "eaten K"
//   stop       stops the server, prints "stopped MS"
// Ends through exit() at the end of its input, and on SIGTERM.
// Exits with 77 where the limit cannot be set: threads of root are not limited, so it takes a user
// of its own, which only root may do.
#include <dlfcn.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "jobscope/jobscope_c.h"
#include "jobscope/trace.h"

namespace {

constexpr int kNotSupported = 77;
constexpr uid_t kFirstUser = 1'000'000'000;  // far from those of any machine

[[noreturn]] void Unsupported(const char* what) {
  std::printf("unsupported %s: %s\n", what, std::strerror(errno));
  std::fflush(stdout);
  std::_Exit(kNotSupported);
}

// All descriptors but `free` are taken.
void LimitDescriptors(int free) {
  const rlimit limit = {128, 128};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) Unsupported("RLIMIT_NOFILE");
  while (fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) >= 0) {
  }
  for (int fd = 127; fd > 127 - free; --fd) close(fd);
}

// A user that has this one thread, and may have `free` more.
void LimitThreads(int free) {
  const uid_t user = kFirstUser + static_cast<uid_t>(getpid());
  const rlimit limit = {static_cast<rlim_t>(free) + 1, static_cast<rlim_t>(free) + 1};
  if (setrlimit(RLIMIT_NPROC, &limit) != 0) Unsupported("RLIMIT_NPROC");
  if (setgroups(0, nullptr) != 0 || setresgid(user, user, user) != 0 ||
      setresuid(user, user, user) != 0) {
    Unsupported("setresuid");
  }
  prctl(PR_SET_DUMPABLE, 1);  // /proc/self stays readable
}

rlim_t MappedBytes() {
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  return pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
}

void LimitMemory(int free_mib) {
  const rlim_t bytes = MappedBytes() + (static_cast<rlim_t>(free_mib) << 20);
  rlimit limit = {};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = bytes;  // may be raised again
  if (setrlimit(RLIMIT_AS, &limit) != 0) Unsupported("RLIMIT_AS");
}

void EatMemory(int left_mib) {
  static void* eaten = nullptr;
  static size_t eaten_bytes = 0;
  if (eaten_bytes != 0) munmap(eaten, eaten_bytes);
  eaten_bytes = 0;
  rlimit limit = {};
  getrlimit(RLIMIT_AS, &limit);
  const rlim_t kept = MappedBytes() + (static_cast<rlim_t>(left_mib) << 20);
  if (kept >= limit.rlim_cur) return;
  eaten = mmap(nullptr, limit.rlim_cur - kept, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (eaten != MAP_FAILED) eaten_bytes = limit.rlim_cur - kept;
}

int TakeThreads() {
  const auto pause_for_ever = [](void*) -> void* {
    for (;;) pause();
  };
  int taken = 0;
  pthread_t thread;
  while (pthread_create(&thread, nullptr, pause_for_ever, nullptr) == 0) ++taken;
  return taken;
}

double MillisecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

volatile sig_atomic_t g_terminated = 0;

bool HasInput() {
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  return poll(&input, 1, 1) > 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 2;
  }
  const auto start =
      reinterpret_cast<decltype(&jobscope_server_start)>(dlsym(library, "jobscope_server_start"));
  const auto stop =
      reinterpret_cast<decltype(&jobscope_server_stop)>(dlsym(library, "jobscope_server_stop"));
  const std::string what = argv[2];
  const int free = std::atoi(argv[3]);
  if (what == "descriptors") LimitDescriptors(free);
  if (what == "threads") LimitThreads(free);
  if (what == "memory") LimitMemory(free);

  jobscope_server_options options = {};
  options.size = sizeof(options);
  options.address = "127.0.0.1:0";
  char address[128];
  char error[1024];
  const auto begin = std::chrono::steady_clock::now();
  const int code = start(&options, address, sizeof(address), error, sizeof(error));
  const double took_ms = MillisecondsSince(begin);
  if (code == JOBSCOPE_OK) {
    std::printf("started %.0f %s\n", took_ms, address);
  } else {
    std::printf("refused %.0f %d %s\n", took_ms, code, error);
  }
  struct sigaction terminate = {};
  terminate.sa_handler = [](int) { g_terminated = 1; };
  sigaction(SIGTERM, &terminate, nullptr);
  char command[16];
  for (int64_t step = 0; g_terminated == 0;) {
    {
      JOBSCOPE_STEP("train", step++);
      JOBSCOPE_SCOPE("work");
    }
    if (!HasInput()) continue;
    if (std::fgets(command, sizeof(command), stdin) == nullptr) std::exit(0);
    if (std::strncmp(command, "squeeze ", 8) == 0) {
      LimitMemory(std::atoi(command + 8));
      std::printf("squeezed %s", command + 8);
    }
    if (std::strncmp(command, "eat ", 4) == 0) {
      EatMemory(std::atoi(command + 4));
      std::printf("eaten %s", command + 4);
    }
    if (std::strcmp(command, "take\n") == 0) std::printf("taken %d\n", TakeThreads());
    if (std::strcmp(command, "stop\n") == 0) {
      const auto stop_begin = std::chrono::steady_clock::now();
      stop();
      std::printf("stopped %.0f\n", MillisecondsSince(stop_begin));
    }
  }
  std::exit(0);
}
