// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>

#include "tests/analysis/made_runs/makers.h"

namespace jobscope::analysis {
namespace {

void AddInputWait(double begin_ms, TraceFile* trace) {
  trace->Input(begin_ms, begin_ms + 6);
  trace->Event("decode_image", begin_ms + 0.5, begin_ms + 5.5);
  trace->Event("forward", begin_ms + 6, begin_ms + 9.5);
  trace->Source("IteratorGetNext next_batch", "loader.py:88");
  trace->Source("decode_image", "loader.py:131");
}

void AddCompilation(double begin_ms, TraceFile* trace) {
  trace->Event("PjitFunction(update)", begin_ms, begin_ms + 9);
  trace->Event("backend_compile_and_load", begin_ms + 1, begin_ms + 8);
}

// Launches that the device waits for.
void AddLaunches(double begin_ms, TraceFile* trace) {
  trace->Event("aten::linear", begin_ms, begin_ms + 7);
  trace->Event("cudaLaunchKernel", begin_ms, begin_ms + 5);
  trace->Kernel("gemm_f16_128x128", begin_ms + 4, begin_ms + 6);
}

void AddCopies(double begin_ms, TraceFile* trace) {
  trace->Kernel("MemcpyHtoD", begin_ms, begin_ms + 4, 8);
  trace->Kernel("gemm_f16_128x128", begin_ms + 4, begin_ms + 9);
}

void AddKernels(double begin_ms, TraceFile* trace) {
  trace->Event("forward", begin_ms, begin_ms + 9);
  trace->Kernel("gemm_f16_128x128", begin_ms, begin_ms + 8);
}

// A device that waits for Python, which launches its kernels.
void AddIdleDevice(double begin_ms, TraceFile* trace) {
  trace->Event("forward", begin_ms, begin_ms + 9.5);
  trace->Event("cudaLaunchKernel", begin_ms + 3.2, begin_ms + 4.0);
  trace->Kernel("gemm_f16_128x128", begin_ms + 4.0, begin_ms + 9.0);
}

// A step whose thread does without a CPU for 3 ms.
void MakeShortOfCpu(MadeRun* run) {
  MakeOneWorker(
      [](double begin_ms, TraceFile* trace) { trace->Event("forward", begin_ms, begin_ms + 10); },
      run, {{"cpu_ns", 7'000'000}, {"run_delay_ns", 3'000'000}});
}

// Within its work, `name` takes 3 ms.
void MakeInterrupted(const std::string& name, MadeRun* run) {
  MakeOneWorker(
      [&](double begin_ms, TraceFile* trace) {
        trace->Event("forward", begin_ms, begin_ms + 10);
        trace->Event(name, begin_ms + 4, begin_ms + 7);
      },
      run);
}

// A thread that sleeps for what nothing records.
void MakeAsleep(MadeRun* run) {
  MakeOneWorker(
      [](double begin_ms, TraceFile* trace) { trace->Event("forward", begin_ms, begin_ms + 3); },
      run, {{"cpu_ns", 2'000'000}, {"run_delay_ns", 1'000'000}});
}

// The same of a thread whose Python functions are sampled.
void MakeSampled(MadeRun* run) {
  MakeOneWorker(
      [](double begin_ms, TraceFile* trace) {
        trace->NameLine("/host:CPU", 1, "MainThread/4711");
        trace->NameLine("/host:CPU", 2, "MainThread/4711 (python samples)");
        trace->Event("$loader.py:12 wait_for_lock", begin_ms, begin_ms + 10, {{"samples", 1}}, {},
                     "/host:CPU", 2);
      },
      run, {{"cpu_ns", 1'000'000}, {"run_delay_ns", 0}});
}

// A program that compiles for a second in its first step, and whose device is idle too often.
void MakeStart(MadeRun* run) {
  TraceFile trace;
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = step == 0 ? 0 : 1000 + step * 10;
    const double compiled_ms = 1000 + step * 10;
    trace.Step(step, begin_ms, compiled_ms + 10);
    if (step == 0) trace.Event("backend_compile_and_load", begin_ms, compiled_ms);
    trace.Kernel("gemm_f16_128x128", compiled_ms, compiled_ms + 4.5);
    trace.Event("forward", compiled_ms + 4.5, compiled_ms + 6.4);
    trace.Event("cudaLaunchKernel", compiled_ms + 6.4, compiled_ms + 8.2);
  }
  run->AddWorker(0, "node0", trace);
}

}  // namespace

void MakeOneWorker(const std::function<void(double, TraceFile*)>& add, MadeRun* run,
                   const Stats& of_step) {
  TraceFile trace;
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10, of_step);
    add(begin_ms, &trace);
  }
  run->AddWorker(0, "node0", trace);
}

Makers BoundMakers() {
  return {
      {"input_bound", [](MadeRun* run) { MakeOneWorker(AddInputWait, run); }},
      {"compile_bound", [](MadeRun* run) { MakeOneWorker(AddCompilation, run); }},
      {"launch_bound", [](MadeRun* run) { MakeOneWorker(AddLaunches, run); }},
      {"copy_bound", [](MadeRun* run) { MakeOneWorker(AddCopies, run); }},
      {"device_bound", [](MadeRun* run) { MakeOneWorker(AddKernels, run); }},
      {"host_bound", [](MadeRun* run) { MakeOneWorker(AddIdleDevice, run); }},
      {"short_of_cpu", MakeShortOfCpu},
      {"gc_bound", [](MadeRun* run) { MakeInterrupted("gc", run); }},
      {"gil_bound", [](MadeRun* run) { MakeInterrupted("take_gil", run); }},
      {"asleep", MakeAsleep},
      {"sampled", MakeSampled},
      {"start", MakeStart},
      {"transfer",
       [](MadeRun* run) { run->AddRanks(4, 40, Jitter, [](int, int) { return 12.0; }); }},
      {"balanced",
       [](MadeRun* run) { run->AddRanks(8, 40, Jitter, [](int, int) { return 50.0; }); }},
  };
}

}  // namespace jobscope::analysis
