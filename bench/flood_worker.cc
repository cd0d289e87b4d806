// SPDX-License-Identifier: Apache-2.0
//
// Serves a worker that records at a requested rate and counts exactly what it attempted: the load
// for tests and benches of loss, memory and scale.
//
//   flood_worker --listen=127.0.0.1:0 --threads=4 --scopes_per_second=10000 [--seconds=S]
//                [--servers=K] [--burst_ms=B --idle_ms=I]
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "jobscope/profiler_server.h"
#include "jobscope/trace.h"

namespace jobscope::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Read once per scope or, with a rate, once per tick.
std::atomic<bool> stop_requested{false};

// Returns SIGTERM, SIGINT and, for the parent of copies, SIGCHLD. Blocked in every thread; the main
// thread waits for them.
sigset_t WaitedSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGCHLD}) sigaddset(&signals, signal);
  return signals;
}

struct Options {
  std::string listen;
  int threads = 1;
  double scopes_per_second = 0;  // of the whole process; 0: as fast as possible
  double burst_ms = 0;           // 0: without a pause
  double idle_ms = 0;            // between two bursts
  double seconds = 0;            // 0: until SIGTERM
  int servers = 1;
  uint32_t ring_records = 0;  // 0: the recorder's default
};

// Records one scope. Its argument is evaluated only if it is recorded: `attempted` is the number of
// scopes passed to the recorder, and the argument is the scope's number within its thread, so that
// a reader detects torn or reordered records.
void Scope(uint64_t* attempted) { JOBSCOPE_SCOPE("flood", "sequence", ++*attempted); }

uint64_t FloodAtFullSpeed() {
  uint64_t attempted = 0;
  while (!stop_requested.load(std::memory_order_relaxed)) Scope(&attempted);
  return attempted;
}

// Records at the rate until `end` or a stop request.
void FloodUntil(Clock::time_point end, double scopes_per_second, uint64_t* attempted) {
  // One scope per tick at low rates, so that hundreds of quiet workers leave the machine idle. At
  // least 1 ms: a ring of 1,024 records then does not overflow between two drains at 100,000/s from
  // one thread. At most 100 ms: this bounds how late the end is noticed.
  const auto pause = std::chrono::duration_cast<Clock::duration>(
      std::clamp(std::chrono::duration<double>(1 / scopes_per_second),
                 std::chrono::duration<double>(0.001), std::chrono::duration<double>(0.1)));
  const Clock::time_point start = Clock::now();
  uint64_t executed = 0;
  for (Clock::time_point tick = start; tick < end && !stop_requested; tick += pause) {
    std::this_thread::sleep_until(tick);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    const auto due = static_cast<uint64_t>(elapsed.count() * scopes_per_second);
    for (; executed < due; ++executed) Scope(attempted);
  }
}

uint64_t FloodAtRate(const Options& options) {
  const double scopes_per_second = options.scopes_per_second / options.threads;
  uint64_t attempted = 0;
  if (options.burst_ms == 0) {
    FloodUntil(Clock::time_point::max(), scopes_per_second, &attempted);
    return attempted;
  }
  const auto burst = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::milli>(options.burst_ms));
  const auto idle = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::milli>(options.idle_ms));
  while (!stop_requested) {
    FloodUntil(Clock::now() + burst, scopes_per_second, &attempted);
    std::this_thread::sleep_for(idle);
  }
  return attempted;
}

// Blocks until the time is over or a signal arrives.
void WaitForEnd(double seconds) {
  const sigset_t signals = WaitedSignals();
  if (seconds > 0) {
    timespec limit = {};
    limit.tv_sec = static_cast<time_t>(seconds);
    limit.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
    sigtimedwait(&signals, nullptr, &limit);
  } else {
    int signal = 0;
    sigwait(&signals, &signal);
  }
  stop_requested = true;
}

int RunOneServer(const Options& options) {
  ProfilerServerOptions server_options;
  server_options.address = options.listen;
  server_options.ring_records = options.ring_records;
  const ProfilerServer server = ProfilerServer::Start(server_options);
  if (!server) {
    std::fprintf(stderr, "flood_worker: %s\n", server.error().c_str());
    return 1;
  }
  std::printf("listening on %s\n", server.address().c_str());
  std::fflush(stdout);

  std::atomic<uint64_t> attempted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < options.threads; ++i) {
    threads.emplace_back([&options, &attempted, i] {
      SetThreadName(("flood " + std::to_string(i)).c_str());
      attempted += options.scopes_per_second > 0 ? FloodAtRate(options) : FloodAtFullSpeed();
    });
  }
  WaitForEnd(options.seconds);
  for (std::thread& thread : threads) thread.join();
  std::printf("attempted %llu\n", static_cast<unsigned long long>(attempted.load()));
  return 0;
}

// Returns the address of copy `index`: the port plus the index, or 0 again.
std::string AddressOfCopy(const std::string& listen, int index) {
  const size_t colon = listen.rfind(':');
  if (colon == std::string::npos) return listen;
  const int port = std::atoi(listen.c_str() + colon + 1);
  return listen.substr(0, colon + 1) + std::to_string(port == 0 ? 0 : port + index);
}

// Starts a copy of this program that ends with this process, however that ends. Returns its pid, or
// -1.
pid_t StartCopy(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  if (child < 0) std::perror("flood_worker: fork");
  return child;
}

// Runs K servers as K copies of this program, because a process has one server. Each prints its own
// two lines to the common stdout.
int RunCopies(const Options& options, const char* program) {
  std::set<pid_t> running;
  int exit_code = 0;
  for (int i = 0; i < options.servers; ++i) {
    const pid_t child =
        StartCopy({program, "--listen=" + AddressOfCopy(options.listen, i),
                   "--threads=" + std::to_string(options.threads),
                   "--scopes_per_second=" + std::to_string(options.scopes_per_second),
                   "--burst_ms=" + std::to_string(options.burst_ms),
                   "--idle_ms=" + std::to_string(options.idle_ms),
                   "--seconds=" + std::to_string(options.seconds),
                   "--ring_records=" + std::to_string(options.ring_records)});
    if (child < 0) {
      exit_code = 1;
      break;
    }
    running.insert(child);
  }
  const auto end_all = [&running] {
    for (const pid_t child : running) kill(child, SIGTERM);
  };
  if (exit_code != 0) end_all();
  const sigset_t signals = WaitedSignals();
  while (!running.empty()) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGCHLD) end_all();
    int status = 0;
    for (pid_t ended; (ended = waitpid(-1, &status, WNOHANG)) > 0; running.erase(ended)) {
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) exit_code = 1;
    }
  }
  return exit_code;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Records scopes at a given rate, and lets itself be captured.", "flood_worker");
  app.add_option("--listen", options.listen, "address of the profiler server; port 0 picks one")
      ->envname("JOBSCOPE_LISTEN")
      ->required();
  app.add_option("--threads", options.threads, "recording threads")->check(CLI::Range(1, 4096));
  app.add_option("--scopes_per_second", options.scopes_per_second,
                 "of the whole process; 0: as fast as it can")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--burst_ms", options.burst_ms,
                 "record at the rate for so long, then pause; 0: without a pause")
      ->check(CLI::Range(0.0, 1000.0));
  app.add_option("--idle_ms", options.idle_ms, "pause between two bursts")
      ->check(CLI::Range(0.0, 1000.0));
  app.add_option("--seconds", options.seconds, "how long; 0: until SIGTERM")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--servers", options.servers,
                 "run this many copies, on consecutive ports (or on free ones, with port 0)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--ring_records", options.ring_records,
                 "records per thread's ring, a power of two; 0: the default");
  CLI11_PARSE(app, argc, argv);

  const sigset_t signals = WaitedSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return options.servers == 1 ? RunOneServer(options) : RunCopies(options, argv[0]);
}

}  // namespace
}  // namespace jobscope::bench

int main(int argc, char** argv) {
  try {
    return jobscope::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "flood_worker: %s\n", error.what());
    return 1;
  }
}
