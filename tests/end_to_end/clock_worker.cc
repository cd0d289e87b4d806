// SPDX-License-Identifier: Apache-2.0
//
// A worker whose REALTIME clock is wrong, and whose events tell when they really happened: each
// instant "tick" carries MONOTONIC, read where it is recorded. Workers of one machine share that
// clock, so their traces can be checked against each other.
//
//   clock_worker [--listen=127.0.0.1:0] [--realtime_shift_ns=N] [--clock_id=ID] [--step_ms=M]
//                [--first_step=S] [--steps_per_epoch=E] [--scopes_per_second=R]
//                [--infer_steps=only|too] [--work | --spin]
//
// Prints its address, then trains until SIGTERM.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "common/clock/clock.h"
#include "common/clock/clock_for_testing.h"
#include "common/clock/clock_id.h"
#include "jobscope/detail/writer_abi.h"
#include "jobscope/profiler_server.h"
#include "jobscope/trace.h"

namespace jobscope {
namespace {

std::atomic<bool> stop_requested{false};
extern "C" void RequestStop(int) { stop_requested = true; }

void Tick() { JOBSCOPE_INSTANT("tick", "monotonic_ns", WorkerMonotonicNs()); }

void Work(std::chrono::milliseconds length) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + length;
  do {
    Tick();
    JOBSCOPE_SCOPE("work");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } while (Clock::now() < end && !stop_requested);
}

// Needs a processor all the time.
void Spin() {
  using Clock = std::chrono::steady_clock;
  Tick();
  JOBSCOPE_SCOPE("work");
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(1);
  while (Clock::now() < end) continue;
}

void Step(int64_t number, std::chrono::milliseconds length) {
  JOBSCOPE_STEP("train", number);
  Work(length);
}

// A step has ended, as somebody saw who looks on.
void InferStepEnd() {
  static const jobscope_trace_writer_table* const writer = jobscope_trace_writer();
  static const jobscope_site site = {
      sizeof(jobscope_site),       0, "watched step", "", "", 0, JOBSCOPE_BIT_STEP,
      JOBSCOPE_ROLE_INFERRED_STEP, 0};
  static const uint32_t id = writer->find_site(&site, nullptr, 0);
  static int64_t number = 0;
  static uint64_t begin_ticks = 0;
  const bool ends = begin_ticks != 0;
  begin_ticks = writer->step_boundary(id, number, begin_ticks);
  if (ends) ++number;
}

// Load beside the steps, from a thread of its own.
void Flood(double scopes_per_second) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  uint64_t made = 0;
  for (auto tick = start; !stop_requested; tick += std::chrono::milliseconds(1)) {
    std::this_thread::sleep_until(tick);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    for (; static_cast<double>(made) < elapsed.count() * scopes_per_second; ++made) {
      JOBSCOPE_SCOPE("flood", "sequence", made);
    }
  }
}

int Main(int argc, char** argv) {
  std::string listen = "127.0.0.1:0";
  std::string clock_id;
  int64_t realtime_shift_ns = 0;
  int step_ms = 0;
  int64_t first_step = 0;
  int64_t steps_per_epoch = 0;
  double scopes_per_second = 0;
  std::string infer_steps;
  bool work = false;
  bool spin = false;
  CLI::App app("A worker with a clock that is wrong.", "clock_worker");
  app.add_option("--listen", listen);
  app.add_option("--realtime_shift_ns", realtime_shift_ns);
  app.add_option("--clock_id", clock_id, "says that it has this clock");
  app.add_option("--step_ms", step_ms, "0: no steps");
  app.add_option("--first_step", first_step);
  app.add_option("--steps_per_epoch", steps_per_epoch,
                 "numbers begin anew after so many; 1: all 0");
  app.add_option("--scopes_per_second", scopes_per_second);
  app.add_option("--infer_steps", infer_steps, "ends of steps are noticed; only: not marked")
      ->check(CLI::IsMember({"only", "too"}));
  app.add_flag("--work", work, "without steps: always inside of a scope");
  app.add_flag("--spin", spin, "likewise, and on a processor");
  CLI11_PARSE(app, argc, argv);

  std::signal(SIGTERM, RequestStop);
  ShiftRealtimeForTesting(realtime_shift_ns);
  if (!clock_id.empty()) SetClockIdForTesting(clock_id);

  ProfilerServerOptions options;
  options.address = listen;
  // Holds seconds of the flood: nothing is overwritten while the reader of a busy machine waits.
  options.ring_records = 1 << 18;
  const ProfilerServer server = ProfilerServer::Start(options);
  if (!server) {
    std::fprintf(stderr, "clock_worker: %s\n", server.error().c_str());
    return 1;
  }
  int64_t step = first_step;
  const auto train = [&] {
    const std::chrono::milliseconds length(step_ms);
    if (infer_steps == "only") {
      Work(length);
    } else {
      Step(steps_per_epoch > 0 ? step % steps_per_epoch : step, length);
    }
    if (!infer_steps.empty()) InferStepEnd();
    ++step;
  };
  // A client that reads the address finds numbers that have fallen.
  while (step_ms > 0 && step < first_step + 2 * steps_per_epoch) train();
  std::printf("%s\n", server.address().c_str());
  std::fflush(stdout);

  std::thread flood;
  if (scopes_per_second > 0) flood = std::thread(Flood, scopes_per_second);
  while (!stop_requested) {
    if (step_ms > 0) {
      train();
    } else if (work) {
      Work(std::chrono::milliseconds(100));
    } else if (spin) {
      Spin();
    } else {
      Tick();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  if (flood.joinable()) flood.join();
  return 0;
}

}  // namespace
}  // namespace jobscope

int main(int argc, char** argv) {
  try {
    return jobscope::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "clock_worker: %s\n", error.what());
    return 1;
  }
}
