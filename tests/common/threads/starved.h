// SPDX-License-Identifier: Apache-2.0
//
// Keeps a thread from every processor, for tests of time limits.
#ifndef TESTS_COMMON_THREADS_STARVED_H_
#define TESTS_COMMON_THREADS_STARVED_H_

#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <thread>

namespace jobscope {

// Returns a processor that this process may use.
inline cpu_set_t OneProcessor() {
  cpu_set_t all;
  cpu_set_t one;
  CPU_ZERO(&one);
  EXPECT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &all)) ++cpu;
  CPU_SET(cpu, &one);
  return one;
}

// Keeps a processor busy, from the end of the constructor on.
class BusyProcessor {
 public:
  explicit BusyProcessor(const cpu_set_t& processor)
      : thread_([this, processor] {
          EXPECT_EQ(sched_setaffinity(0, sizeof(processor), &processor), 0);
          taken_ = true;
          while (!free_) {
          }
        }) {
    while (!taken_) std::this_thread::yield();
  }
  ~BusyProcessor() {
    Free();
    thread_.join();
  }
  void Free() { free_ = true; }

 private:
  std::atomic<bool> taken_{false};
  std::atomic<bool> free_{false};
  std::thread thread_;
};

// Needs 20 ms of a processor that it gets only while nobody else wants it. Changes the calling
// thread permanently.
inline void ComputeStarved(const cpu_set_t& processor) {
  const auto own_cpu_ms = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  };
  const sched_param none{};
  EXPECT_EQ(sched_setaffinity(0, sizeof(processor), &processor), 0);
  EXPECT_EQ(sched_setscheduler(0, SCHED_IDLE, &none), 0);
  const auto begun_ms = own_cpu_ms();
  while (own_cpu_ms() < begun_ms + 20) {
  }
}

}  // namespace jobscope

#endif  // TESTS_COMMON_THREADS_STARVED_H_
