// SPDX-License-Identifier: Apache-2.0
//
// Generates the load of flood_worker with TensorFlow's own scopes: capture_bench.py compiles this
// against the headers of TensorFlow's wheel and loads it into the stock worker.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "tsl/profiler/lib/traceme.h"

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<bool> stop_requested{false};
std::vector<std::thread>* const threads = new std::vector<std::thread>;

void Scope() { const tsl::profiler::TraceMe scope("flood"); }

void FloodAtFullSpeed() {
  while (!stop_requested.load(std::memory_order_relaxed)) Scope();
}

// Like flood_worker: one millisecond's worth at a time.
void FloodAtRate(double scopes_per_second) {
  constexpr std::chrono::milliseconds kTick(1);
  const Clock::time_point start = Clock::now();
  uint64_t executed = 0;
  for (Clock::time_point tick = start; !stop_requested; tick += kTick) {
    std::this_thread::sleep_until(tick);
    const std::chrono::duration<double> elapsed = Clock::now() - start;
    const auto due = static_cast<uint64_t>(elapsed.count() * scopes_per_second);
    for (; executed < due; ++executed) Scope();
  }
}

}  // namespace

// `scopes_per_second` is per thread; 0: as fast as possible.
extern "C" void StartStockFlood(int thread_count, double scopes_per_second) {
  for (int i = 0; i < thread_count; ++i) {
    threads->emplace_back([scopes_per_second] {
      if (scopes_per_second > 0) {
        FloodAtRate(scopes_per_second);
      } else {
        FloodAtFullSpeed();
      }
    });
  }
}

extern "C" void StopStockFlood() {
  stop_requested = true;
  for (std::thread& thread : *threads) thread.join();
  threads->clear();
  stop_requested = false;
}
