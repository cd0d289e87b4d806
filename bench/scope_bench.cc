// SPDX-License-Identifier: Apache-2.0
//
// Measures the cost of a site: off, on, with arguments, from two threads, with a reader draining.
// Prints the ratios that the budgets use, relative to baselines of the same run: an empty loop, and
// two reads of the tick counter.
//
//   bin/scope_bench [--benchmark_repetitions=5 --benchmark_min_time=0.2]   (reports medians over
//                                                                           repetitions)
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "collectors/host/recorder/reader_abi.h"
#include "jobscope/detail/ticks.h"
#include "jobscope/trace.h"

namespace {

const struct jobscope_trace_reader* Reader() { return jobscope_trace_reader(); }

constexpr uint32_t kAllBits = JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_INPUT_WAIT | JOBSCOPE_BIT_COARSE |
                              JOBSCOPE_BIT_LEVEL1 | JOBSCOPE_BIT_LEVEL2;

void SetOn(const benchmark::State&) { Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, kAllBits); }
void SetOff(const benchmark::State&) { Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, 0); }

void EmptyLoop(benchmark::State& state) {
  for (auto _ : state) benchmark::ClobberMemory();
}
BENCHMARK(EmptyLoop);

void TwoTickReads(benchmark::State& state) {
  const bool uses_tsc = Reader()->uses_tsc != 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(jobscope::detail::ReadTicks(uses_tsc));
    benchmark::DoNotOptimize(jobscope::detail::ReadTicks(uses_tsc));
  }
}
BENCHMARK(TwoTickReads);

void InactiveScope(benchmark::State& state) {
  for (auto _ : state) {
    JOBSCOPE_SCOPE_AT(3, "inactive");
    benchmark::ClobberMemory();
  }
}
BENCHMARK(InactiveScope)->Setup(SetOff);

void InactiveScopeWithArgs(benchmark::State& state) {
  int n = 0;
  for (auto _ : state) {
    JOBSCOPE_SCOPE_AT(3, "inactive", "n", n, "text", "some text");
    benchmark::ClobberMemory();
  }
}
BENCHMARK(InactiveScopeWithArgs)->Setup(SetOff);

void Scope(benchmark::State& state) {
  for (auto _ : state) {
    JOBSCOPE_SCOPE("scope");
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(Scope)->Setup(SetOn)->Teardown(SetOff);
BENCHMARK(Scope)->Name("ScopeTwoThreads")->Threads(2)->Setup(SetOn)->Teardown(SetOff);

void ScopeWithInteger(benchmark::State& state) {
  int64_t n = 0;
  for (auto _ : state) {
    JOBSCOPE_SCOPE("scope", "n", ++n);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(ScopeWithInteger)->Setup(SetOn)->Teardown(SetOff);

void ScopeWithFourNumbers(benchmark::State& state) {
  int64_t n = 0;
  for (auto _ : state) {
    JOBSCOPE_SCOPE("scope", "n", ++n, "m", n, "x", 1.5, "y", 2.5);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(ScopeWithFourNumbers)->Setup(SetOn)->Teardown(SetOff);

void ScopeWithString(benchmark::State& state) {
  const std::string text = "shard-00017-of-01024";
  for (auto _ : state) {
    JOBSCOPE_SCOPE("scope", "file", text);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(ScopeWithString)->Setup(SetOn)->Teardown(SetOff);

void Step(benchmark::State& state) {
  int64_t number = 0;
  for (auto _ : state) {
    JOBSCOPE_STEP("step", ++number);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(Step)->Setup(SetOn)->Teardown(SetOff);

// Like a capture: the thread reads its resource usage at the end of each step.
void SetOnWithUsage(const benchmark::State&) {
  Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, kAllBits | JOBSCOPE_BIT_STEP_USAGE);
}

void StepWithUsage(benchmark::State& state) {
  int64_t number = 0;
  for (auto _ : state) {
    JOBSCOPE_STEP("step", ++number);
  }
}
BENCHMARK(StepWithUsage)->Setup(SetOnWithUsage)->Teardown(SetOff);

// Switches threads, after which there is more to read.
void Sleep() { std::this_thread::sleep_for(std::chrono::microseconds(1)); }

void SleepAlone(benchmark::State& state) {
  for (auto _ : state) Sleep();
}
BENCHMARK(SleepAlone);

void StepWithUsageAfterSleep(benchmark::State& state) {
  int64_t number = 0;
  for (auto _ : state) {
    JOBSCOPE_STEP("step", ++number);
    Sleep();
  }
}
BENCHMARK(StepWithUsageAfterSleep)->Setup(SetOnWithUsage)->Teardown(SetOff);

double ThreadCpuSeconds() {
  struct timespec cpu;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9;
}

// Returns the CPU time of a step that sleeps as long as one that waits for a device. Meanwhile the
// processor sleeps too, or does other work: what a step reads at its end is not in its caches.
double StepThatSleeps(uint32_t mask) {
  constexpr int kSteps = 30;
  int64_t number = 0;
  const auto step = [&number] {
    JOBSCOPE_STEP("step", ++number);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  Reader()->set_mask(JOBSCOPE_HOLDER_SESSION, mask);
  step();  // the first one with this mask also reads its usage at its begin
  const double begin = ThreadCpuSeconds();
  for (int i = 0; i < kSteps; ++i) step();
  return (ThreadCpuSeconds() - begin) / kSteps;
}

// Steps with and without usage take turns, because the time that a sleep takes drifts by more than
// the usage. A fixed number of iterations: each takes 0.12 s.
void StepUsageAfterLongSleep(benchmark::State& state) {
  for (auto _ : state) {
    const double without = StepThatSleeps(kAllBits);
    state.SetIterationTime(StepThatSleeps(kAllBits | JOBSCOPE_BIT_STEP_USAGE) - without);
  }
}
BENCHMARK(StepUsageAfterLongSleep)->Iterations(5)->UseManualTime()->Teardown(SetOff);

void Instant(benchmark::State& state) {
  for (auto _ : state) JOBSCOPE_INSTANT("instant");
}
BENCHMARK(Instant)->Setup(SetOn)->Teardown(SetOff);

void AsyncPair(benchmark::State& state) {
  for (auto _ : state) jobscope::AsyncEnd(jobscope::AsyncBegin("request"));
}
BENCHMARK(AsyncPair)->Setup(SetOn)->Teardown(SetOff);

// Computes a chain of dependent multiplications of about 70 ns: shows the cost of a scope in code
// that does work.
uint64_t Work(uint64_t x) {
  for (int i = 0; i < 50; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
  return x;
}
void WorkAlone(benchmark::State& state) {
  uint64_t x = 1;
  for (auto _ : state) benchmark::DoNotOptimize(x = Work(x));
}
BENCHMARK(WorkAlone);
void ScopeAroundWork(benchmark::State& state) {
  uint64_t x = 1;
  for (auto _ : state) {
    JOBSCOPE_SCOPE("work");
    benchmark::DoNotOptimize(x = Work(x));
  }
}
BENCHMARK(ScopeAroundWork)->Setup(SetOn)->Teardown(SetOff);

// Reads rings as fast as possible: shows the cost of a capture's reader for the writer, and of a
// record for the reader.
class Drain {
 public:
  Drain() : thread_([this] { Run(); }) {}
  Drain(const Drain&) = delete;
  Drain& operator=(const Drain&) = delete;
  ~Drain() {
    stop_.store(true);
    thread_.join();
  }

 private:
  void Run() {
    std::vector<jobscope_thread_info> threads(64);
    std::vector<jobscope_record> records(16384);
    std::map<uint64_t, jobscope_cursor> cursors;
    while (!stop_.load(std::memory_order_relaxed)) {
      const size_t count = Reader()->threads(0, threads.data(), threads.size());
      for (size_t i = 0; i < count; ++i) {
        jobscope_cursor& cursor = cursors[threads[i].serial];
        jobscope_read_result result;
        Reader()->read(threads[i].serial, &cursor, records.data(), records.size(), &result);
        benchmark::DoNotOptimize(records.data());
      }
      // Like a collector, it returns later instead of spinning.
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void ScopeWhileDrained(benchmark::State& state) {
  Drain drain;
  for (auto _ : state) {
    JOBSCOPE_SCOPE("scope");
    benchmark::ClobberMemory();
  }
}
BENCHMARK(ScopeWhileDrained)->Setup(SetOn)->Teardown(SetOff);

// Measures reading a full ring of one-record events, per event.
void ReadEvents(benchmark::State& state) {
  std::vector<jobscope_record> records(65536);
  JOBSCOPE_INSTANT("attach");
  const uint64_t serial = jobscope::AsyncBegin("serial").value >> 32;
  uint64_t events = 0;
  for (auto _ : state) {
    state.PauseTiming();
    for (int i = 0; i < 32768; ++i) JOBSCOPE_INSTANT("instant");
    state.ResumeTiming();
    jobscope_cursor cursor = Reader()->oldest(serial);
    jobscope_read_result result;
    Reader()->read(serial, &cursor, records.data(), records.size(), &result);
    events += result.events;
  }
  state.SetItemsProcessed(static_cast<int64_t>(events));
}
BENCHMARK(ReadEvents)->Setup(SetOn)->Teardown(SetOff);

// Prints what the console reporter prints, and keeps the times for the table.
class Reporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      // With --benchmark_report_aggregates_only only the median arrives here, not the single runs.
      if (run.run_type == Run::RT_Aggregate && run.aggregate_name != "median") continue;
      // CPU time is per thread: with several threads it is their sum over the iterations of all.
      const bool manual = run.run_name.time_type == "manual_time";
      times_[run.run_name.function_name].push_back(manual ? run.GetAdjustedRealTime()
                                                          : run.GetAdjustedCPUTime());
      const auto rate = run.counters.find("items_per_second");
      if (rate != run.counters.end()) rates_[run.run_name.function_name] = rate->second;
    }
  }

  void PrintRatios() const {
    const double loop = Median("EmptyLoop");
    const double ticks = Median("TwoTickReads");
    if (loop < 0 || ticks < 0) return;
    std::printf("\nticks: %s; medians, ns of CPU time per iteration and thread\n",
                Reader()->uses_tsc != 0 ? "TSC" : "CLOCK_MONOTONIC");
    Row("empty loop", loop, "");
    Row("two tick reads", ticks, "");
    Above("inactive scope, above the empty loop", "InactiveScope", loop, 1.0);
    Above("inactive scope with arguments, above the empty loop", "InactiveScopeWithArgs", loop,
          1.0);
    Above("active scope, above two tick reads", "Scope", ticks, 3.0);
    Above("  two threads", "ScopeTwoThreads", ticks, 3.0);
    Above("  with a reader draining", "ScopeWhileDrained", ticks, -1);
    Above("  with an integer", "ScopeWithInteger", ticks, -1);
    Above("  with four numbers", "ScopeWithFourNumbers", ticks, -1);
    Above("  with a string of 20 bytes", "ScopeWithString", ticks, -1);
    Above("step, above two tick reads", "Step", ticks, -1);
    // 0.1 % of a step of 10 ms.
    Above("  with what its thread got", "StepWithUsage", ticks, 10'000);
    Above("  and a switch, above one that sleeps", "StepWithUsageAfterSleep", Median("SleepAlone"),
          10'000);
    Above("  and a sleep of 2 ms, above the same without", "StepUsageAfterLongSleep", 0, 10'000);
    Above("scope around 50 multiplications, above these alone", "ScopeAroundWork",
          Median("WorkAlone"), -1);
    const auto rate = rates_.find("ReadEvents");
    if (rate != rates_.end()) std::printf("%-56s %8.1f M/s\n", "events read", rate->second / 1e6);
  }

 private:
  double Median(const std::string& name) const {
    const auto it = times_.find(name);
    if (it == times_.end()) return -1;
    std::vector<double> sorted = it->second;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  static void Row(const char* what, double ns, const std::string& verdict) {
    std::printf("%-56s %8.2f ns%s\n", what, ns, verdict.c_str());
  }
  void Above(const char* what, const std::string& name, double base, double budget) const {
    const double time = Median(name);
    if (time < 0 || base < 0) return;
    std::string verdict;
    if (budget >= 0) {
      char text[64];
      std::snprintf(text, sizeof(text), "   budget %.0f: %s", budget,
                    time - base <= budget ? "kept" : "EXCEEDED");
      verdict = text;
    }
    Row(what, time - base, verdict);
  }

  std::map<std::string, std::vector<double>> times_;
  std::map<std::string, double> rates_;
};

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  Reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.PrintRatios();
  return 0;
}
