// SPDX-License-Identifier: Apache-2.0
//
// Measures how fast the host collector converts the content of real rings into items of a real
// store, on one core. Budgets: 25, 20 and 14 M events/s for 0, 2 and 3. The argument selects the
// events:
//
//   0  plain scopes, three levels deep
//   1  the same, verbose (no tf_op)
//   2  one integer argument
//   3  an integer and a repeated string
//   4  counters
#include <benchmark/benchmark.h>
#include <time.h>

#include <cstdint>
#include <thread>

#include "collectors/host/host_collector.h"
#include "common/clock/clock.h"
#include "common/xspace/segment/names.h"
#include "common/xspace/segment/store.h"
#include "jobscope/trace.h"

namespace jobscope {
namespace {

constexpr uint32_t kRingRecords = 1 << 20;  // 32 MiB: a second of one thread at 1 M events/s

void Plain() {
  JOBSCOPE_SCOPE("outer");
  JOBSCOPE_SCOPE("middle");
  JOBSCOPE_SCOPE("inner");
}

void Verbose() {
  JOBSCOPE_SCOPE_AT(3, "outer");
  JOBSCOPE_SCOPE_AT(3, "middle");
  JOBSCOPE_SCOPE_AT(3, "inner");
}

// Fills the calling thread's ring to three quarters. Returns the number of events.
uint64_t Fill(int64_t shape) {
  const uint64_t records = kRingRecords / 4 * 3;
  uint64_t events = 0;
  switch (shape) {
    case 0:
      for (; events < records; events += 3) Plain();
      break;
    case 1:
      for (; events < records; events += 3) Verbose();
      break;
    case 2:
      for (; events < records; ++events) {
        JOBSCOPE_SCOPE("with_integer", "index", events);
      }
      break;
    case 3:
      for (; events < records / 3; ++events) {
        JOBSCOPE_SCOPE("with_string", "index", events, "file", "shard-00017.tfrecord");
      }
      break;
    default:
      for (; events < records; ++events) JOBSCOPE_COUNTER("queue", events);
      break;
  }
  return events;
}

double CpuSeconds() {
  struct timespec cpu;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  return static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) * 1e-9;
}

TickMap MeasuredMap(bool uses_tsc) {
  const ClockSample early = SampleClocks(uses_tsc);
  ClockSample late = early;
  while (late.monotonic_ns - early.monotonic_ns < 100'000'000) late = SampleClocks(uses_tsc);
  return TickMap::FromSamples(early, late);
}

void BM_DrainAndEncode(benchmark::State& state) {
  const host::Reader* const reader = ::jobscope_trace_reader();
  if (reader->configure(kRingRecords, 256 << 20) != 0) {
    state.SkipWithError("the recorder refuses the ring size");
    return;
  }
  const bool uses_tsc = reader->uses_tsc != 0;
  const TickMap map = MeasuredMap(uses_tsc);
  HostCollector collector(reader);
  uint64_t events = 0;
  uint64_t bytes = 0;
  for (auto unused : state) {
    xspace::Store store(512 << 20);
    xspace::Names names(&store);
    ArmRequest arm;
    arm.recording.host_tracer_level = 3;
    arm.sink = &store;
    arm.names = &names;
    StartRequest start;
    start.start_ticks = SampleClocks(uses_tsc, 1).ticks;
    start.map = map.WithZero(start.start_ticks);
    if (!collector.Arm(arm).ok() || !collector.Start(start).ok()) {
      state.SkipWithError("the collector does not start");
      return;
    }
    uint64_t filled = 0;
    std::thread([&] { filled = Fill(state.range(0)); }).join();
    const double begin = CpuSeconds();
    while (collector.Drain() == absl::ZeroDuration()) {
    }
    (void)collector.Stop(SampleClocks(uses_tsc, 1).ticks);
    state.SetIterationTime(CpuSeconds() - begin);
    const CollectorReport report = collector.Report();
    if (report.events != filled) {
      state.SkipWithError("not every event is in the trace");
      return;
    }
    events += filled;
    bytes += store.used_bytes();
  }
  state.SetItemsProcessed(static_cast<int64_t>(events));
  state.counters["bytes_per_event"] = static_cast<double>(bytes) / static_cast<double>(events);
}
BENCHMARK(BM_DrainAndEncode)->DenseRange(0, 4)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace jobscope

BENCHMARK_MAIN();
