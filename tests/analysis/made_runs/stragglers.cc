// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "tests/analysis/made_runs/makers.h"

namespace jobscope::analysis {
namespace {

// One long collection on rank 2, for which all wait.
void MakeOneStep(MadeRun* run) {
  std::vector<TraceFile> traces(4);
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = 5 + step * 60 + (step > 17 ? 900 : 0);
    const bool slow = step == 17;
    const double end_ms = begin_ms + 60 + (slow ? 900 : 0);
    for (int rank = 0; rank < 4; ++rank) {
      TraceFile& trace = traces[static_cast<size_t>(rank)];
      const double arrival_ms = begin_ms + 50 + Jitter(rank, step) + (slow && rank == 2 ? 900 : 0);
      trace.Step(100 + step, begin_ms, end_ms);
      trace.Event("forward", begin_ms, arrival_ms);
      if (slow && rank == 2) trace.Event("gc", begin_ms + 20, begin_ms + 920);
      trace.AllReduce(step, arrival_ms, end_ms);
    }
  }
  for (int rank = 0; rank < 4; ++rank) {
    run->AddWorker(rank, "node0", traces[static_cast<size_t>(rank)]);
  }
}

// Workers that wait for nobody; the last one waits for its input.
void MakeIndependent(double input_of_last_ms, MadeRun* run) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    double begin_ms = 5;
    for (int step = 0; step < 40; ++step) {
      const double input_ms = (rank == 3 ? input_of_last_ms : 0.1) + Jitter(rank, step) * 0.1;
      trace.Step(step, begin_ms, begin_ms + input_ms + 5);
      trace.Input(begin_ms, begin_ms + input_ms);
      trace.Event("forward", begin_ms + input_ms, begin_ms + input_ms + 5);
      begin_ms += input_ms + 5;
    }
    run->AddWorker(rank, "node0", trace);
    run->workers_.back()["steps_source"] = "calls of forward";
  }
}

// GPU workers. Those that `is_slow` says compute longer; `add` adds what else a rank records.
void MakeGpus(const std::function<bool(int)>& is_slow,
              const std::function<void(int, TraceFile*)>& add, MadeRun* run) {
  for (int rank = 0; rank < 8; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = 5 + step * 90;
      const double arrival_ms = begin_ms + (is_slow(rank) ? 80 : 50) + Jitter(rank, step);
      trace.Step(100 + step, begin_ms, begin_ms + 90);
      trace.Event("forward", begin_ms, begin_ms + 5);
      trace.Kernel("gemm_f16_128x128", begin_ms + 0.1, arrival_ms);
      trace.AllReduce(step, arrival_ms, begin_ms + 90);
    }
    add(rank, &trace);
    run->AddWorker(rank, "node" + std::to_string(rank / 4), trace);
  }
}

// The GPU of rank 5 has a lower clock. `limit`: the counter that shows why; empty: none does.
void MakeSlowClock(const std::string& limit, MadeRun* run) {
  MakeGpus([](int rank) { return rank == 5; },
           [&](int rank, TraceFile* trace) {
             for (int sample = 0; sample < 36; ++sample) {
               const bool slow = rank == 5 && sample > 3;
               if (!limit.empty()) trace->GpuCounter(limit, sample * 100, slow ? 1 : 0);
               trace->GpuCounter("SM clock (MHz)", sample * 100, slow ? 1200 : 1980);
             }
           },
           run);
}

// One GPU of each node is of an older model.
void MakeGpuModel(MadeRun* run) {
  MakeGpus([](int rank) { return rank % 4 == 1; },
           [](int rank, TraceFile* trace) {
             trace->PlaneText("/device:GPU:0", "gpu_device_name",
                              rank % 4 == 1 ? "NVIDIA A100-SXM4-80GB" : "NVIDIA H100 80GB HBM3");
           },
           run);
}

// Four ranks in steps of 90 ms, of which rank 1 takes `slow_ms` until the all_reduce and the others
// 50. `add(rank, begin_ms, arrival_ms, trace)` adds what they do until then, `of_step` the stats of
// a step.
void MakeRankOneSlow(double slow_ms, const std::function<Stats(int)>& of_step,
                     const std::function<void(int, double, double, TraceFile*)>& add,
                     MadeRun* run) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = 5 + step * 90;
      const double arrival_ms = begin_ms + (rank == 1 ? slow_ms : 50) + Jitter(rank, step);
      trace.Step(100 + step, begin_ms, begin_ms + 90, of_step(rank));
      add(rank, begin_ms, arrival_ms, &trace);
      trace.AllReduce(step, arrival_ms, begin_ms + 90);
    }
    run->AddWorker(rank, "node0", trace);
  }
}

Stats NoStats(int /*rank*/) { return {}; }

// The cgroup of rank 1 has too small a quota.
void MakeQuota(MadeRun* run) {
  MakeRankOneSlow(
      80,
      [](int rank) {
        return Stats{{"cpu_ns", 50'000'000}, {"run_delay_ns", rank == 1 ? 30'000'000 : 0}};
      },
      [](int rank, double begin_ms, double arrival_ms, TraceFile* trace) {
        trace->Event("forward", begin_ms, arrival_ms);
        trace->Counter("cgroup throttled (%)", begin_ms, rank == 1 ? 80 : 1);
      },
      run);
}

// Rank 1 compiles a function anew in each step.
void MakeRecompiling(MadeRun* run) {
  MakeRankOneSlow(
      80, NoStats,
      [](int rank, double begin_ms, double arrival_ms, TraceFile* trace) {
        trace->Event("PjitFunction(update)", begin_ms, arrival_ms);
        if (rank == 1) trace->Event("backend_compile_and_load", begin_ms, begin_ms + 30);
      },
      run);
}

// Rank 1 alone records no kernels, so that its time is in two classes.
void MakeWithoutKernels(MadeRun* run) {
  MakeRankOneSlow(
      80, NoStats,
      [](int rank, double begin_ms, double arrival_ms, TraceFile* trace) {
        if (rank == 1) {
          trace->Event("forward", begin_ms, begin_ms + 45);
        } else {
          trace->Kernel("gemm_f16_128x128", begin_ms, arrival_ms);
        }
      },
      run);
}

// Rank 3 takes the longest, but in no class longer than the others' median.
void MakeNoClass(MadeRun* run) {
  struct Work {
    double input_ms, host_ms, unexplained_ms;
  };
  const std::vector<Work> ranks = {{20, 20, 0}, {0, 20, 20}, {20, 0, 20}, {19, 19, 19}};
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Work& work = ranks[rank];
    TraceFile trace;
    for (int step = 0; step < 40; ++step) {
      const double begin_ms = 5 + step * 65;
      const double ready_ms = begin_ms + work.input_ms;
      const double worked_ms = ready_ms + work.host_ms;
      trace.Step(step, begin_ms, begin_ms + 65);
      if (work.input_ms > 0) trace.Input(begin_ms, ready_ms);
      if (work.host_ms > 0) trace.Event("forward", ready_ms, worked_ms);
      trace.AllReduce(step, worked_ms + work.unexplained_ms, begin_ms + 65);
    }
    run->AddWorker(static_cast<int>(rank), "node0", trace);
  }
}

}  // namespace

Makers StragglerMakers() {
  return {
      {"node",
       [](MadeRun* run) {
         run->AddRanks(16, 40, Jitter, [](int rank, int) { return rank / 4 == 2 ? 80.0 : 50.0; });
       }},
      {"several",
       [](MadeRun* run) {
         run->AddRanks(8, 40, Jitter,
                       [](int rank, int) { return rank == 2 || rank == 5 ? 80.0 : 50.0; });
       }},
      {"one_step", MakeOneStep},
      {"independent", [](MadeRun* run) { MakeIndependent(/*input_of_last_ms=*/20, run); }},
      {"alike", [](MadeRun* run) { MakeIndependent(/*input_of_last_ms=*/0.1, run); }},
      {"hot", [](MadeRun* run) { MakeSlowClock("clocks limited by heat", run); }},
      {"power", [](MadeRun* run) { MakeSlowClock("clocks limited by power", run); }},
      {"clock", [](MadeRun* run) { MakeSlowClock("", run); }},
      {"gpu_model", MakeGpuModel},
      {"quota", MakeQuota},
      {"recompiling", MakeRecompiling},
      {"without_kernels", MakeWithoutKernels},
      {"no_class", MakeNoClass},
  };
}

}  // namespace jobscope::analysis
