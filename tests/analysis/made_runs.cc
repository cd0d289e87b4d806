// SPDX-License-Identifier: Apache-2.0
//
// Writes made-up runs for the tests of the program and for the pictures of docs/report.md: one
// directory per verdict, with threads, GPU streams, allocators and counters where a view needs
// them.
//
// usage: made_runs DIRECTORY [RUN...]     (default: all but the crowd of 1,024 workers)
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/analysis/made_run.h"

namespace jobscope::analysis {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

struct Training {
  int ranks = 8;
  int steps = 40;
  int slow_rank = 5;
  double slow_input_ms = 40;
  double compute_ms = 50;
};

// One step of one rank of a GPU job: a loader, forward and backward pass, their kernels, memory.
void AddTrainingStep(const Training& training, int rank, int step, double begin_ms,
                     double arrival_ms, double end_ms, TraceFile* trace) {
  const double compute_ms = training.compute_ms;
  const double ready_ms = arrival_ms - compute_ms;
  trace->Step(100 + step, begin_ms, end_ms);
  trace->Input(begin_ms, ready_ms);
  trace->Event("decode_image", begin_ms + 0.3, ready_ms - 0.4);
  trace->Event("forward", ready_ms, ready_ms + 0.4 * compute_ms);
  constexpr int kLayers = 6;
  const double layer_ms = 0.4 * compute_ms / kLayers;
  for (int layer = 0; layer < kLayers; ++layer) {
    const double layer_begin_ms = ready_ms + layer * layer_ms;
    const std::string name = layer % 2 == 0 ? "aten::conv2d" : "aten::linear";
    trace->Event(name, layer_begin_ms, layer_begin_ms + 0.8 * layer_ms);
    trace->Event("cudaLaunchKernel", layer_begin_ms + 0.1 * layer_ms,
                 layer_begin_ms + 0.5 * layer_ms);
    trace->Kernel(layer % 2 == 0 ? "implicit_gemm_f16" : "gemm_f16_128x128",
                  layer_begin_ms + 0.3 * layer_ms, layer_begin_ms + 0.9 * layer_ms);
    trace->Allocation("GPU_0_bfc", layer_begin_ms, (900 + 250 * (layer + 1)) * kMiB,
                      (2600 + 40 * rank) * kMiB, 250 * kMiB, name);
  }
  trace->Event("backward", ready_ms + 0.4 * compute_ms, arrival_ms);
  for (int layer = 0; layer < kLayers; ++layer) {
    const double layer_begin_ms = ready_ms + 0.42 * compute_ms + layer * 1.35 * layer_ms;
    trace->Event("autograd::ConvolutionBackward", layer_begin_ms, layer_begin_ms + layer_ms, {}, {},
                 "/host:CPU", 2);
    trace->Kernel("wgrad_f16", layer_begin_ms + 0.2 * layer_ms, layer_begin_ms + 1.2 * layer_ms);
    trace->Allocation("GPU_0_bfc", layer_begin_ms, (900 + 250 * (kLayers - layer - 1)) * kMiB,
                      (2600 + 40 * rank) * kMiB, -250 * kMiB, "autograd::ConvolutionBackward", 2,
                      0.01 * layer);
  }
  trace->Kernel("MemcpyHtoD", ready_ms - 1.5, ready_ms + 1, 8);
  // The loader's thread prepares the next batch meanwhile.
  trace->Event("read_file", ready_ms + 2, ready_ms + 12, {}, {}, "/host:CPU", 3);
  trace->Event("decode_image", ready_ms + 12, ready_ms + 30, {}, {}, "/host:CPU", 3);
  trace->AllReduce(step, arrival_ms, end_ms);
  trace->Counter("process RSS (MiB)", begin_ms, 2100 + 0.8 * step + 20 * rank);
  trace->Counter("GPU 0 memory used (MiB)", begin_ms, 3300 + 40 * rank + (step % 5) * 60);
  trace->Counter("loss", begin_ms, 2.3 / (1 + 0.1 * step) + 0.01 * rank);
}

void MakeTraining(const Training& training, MadeRun* run) {
  std::vector<TraceFile> traces(static_cast<size_t>(training.ranks));
  const auto input_ms = [&](int rank, int step) {
    return 5 + Jitter(rank, step) +
           (rank == training.slow_rank ? training.slow_input_ms * (1 + 0.01 * (step % 9)) : 0);
  };
  double begin_ms = 5;
  for (int step = 0; step < training.steps; ++step) {
    double last_ms = 0;
    for (int rank = 0; rank < training.ranks; ++rank) {
      last_ms = std::max(last_ms, begin_ms + input_ms(rank, step) + training.compute_ms);
    }
    // One step is held up for everybody.
    const double end_ms = last_ms + (step == 23 ? 60 : 8);
    for (int rank = 0; rank < training.ranks; ++rank) {
      AddTrainingStep(training, rank, step, begin_ms,
                      begin_ms + input_ms(rank, step) + training.compute_ms, end_ms,
                      &traces[static_cast<size_t>(rank)]);
    }
    begin_ms = end_ms;
  }
  for (int rank = 0; rank < training.ranks; ++rank) {
    TraceFile& trace = traces[static_cast<size_t>(rank)];
    trace.NameLine("/host:CPU", 1, "MainThread/1");
    trace.NameLine("/host:CPU", 2, "pt_autograd_0/2");
    trace.NameLine("/host:CPU", 3, "loader/3");
    trace.NameLine("/device:GPU:0", 7, "Stream #7(Compute)");
    trace.NameLine("/device:GPU:0", 8, "Stream #8(MemcpyH2D)");
    trace.Source("IteratorGetNext next_batch", "loader.py:88");
    trace.Source("decode_image", "loader.py:131");
    run->AddWorker(rank, "node" + std::to_string(rank / 4), trace);
  }
}

double Even(int /*rank*/, int /*step*/) { return 50; }

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
void MakeIndependent(MadeRun* run) {
  for (int rank = 0; rank < 4; ++rank) {
    TraceFile trace;
    double begin_ms = 5;
    for (int step = 0; step < 40; ++step) {
      const double input_ms = (rank == 3 ? 20 : 0.1) + Jitter(rank, step) * 0.1;
      trace.Step(step, begin_ms, begin_ms + input_ms + 5);
      trace.Input(begin_ms, begin_ms + input_ms);
      trace.Event("forward", begin_ms + input_ms, begin_ms + input_ms + 5);
      begin_ms += input_ms + 5;
    }
    run->AddWorker(rank, "node0", trace);
    run->workers_.back()["steps_source"] = "calls of forward";
  }
}

// The second stage of a pipeline begins when the first one has ended: 20 ms, then 30.
void MakePipeline(MadeRun* run) {
  TraceFile first;
  TraceFile second;
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = 5 + step * 51;
    first.Step(step, begin_ms, begin_ms + 51);
    first.Event("forward", begin_ms, begin_ms + 20);
    first.AllReduce(step, begin_ms + 20, begin_ms + 20.1, "send");
    first.AllReduce(step, begin_ms + 20.1, begin_ms + 51, "all");
    second.Step(step, begin_ms, begin_ms + 51);
    second.AllReduce(step, begin_ms, begin_ms + 20.1, "send");
    second.Event("forward", begin_ms + 20.1, begin_ms + 50.1);
    second.AllReduce(step, begin_ms + 50.1, begin_ms + 51, "all");
  }
  run->AddWorker(0, "node0", first);
  run->AddWorker(1, "node0", second);
}

// A thread that sleeps for what nothing records.
void MakeAsleep(MadeRun* run) {
  TraceFile trace;
  for (int step = 0; step < 40; ++step) {
    trace.Step(step, step * 10, step * 10 + 10,
               {{"cpu_ns", 2'000'000}, {"run_delay_ns", 1'000'000}});
    trace.Event("forward", step * 10, step * 10 + 3);
  }
  run->AddWorker(0, "node0", trace);
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

// A device that waits for Python, which launches its kernels.
void MakeHostBound(MadeRun* run) {
  TraceFile trace;
  for (int step = 0; step < 40; ++step) {
    const double begin_ms = step * 10;
    trace.Step(step, begin_ms, begin_ms + 10);
    trace.Event("forward", begin_ms, begin_ms + 9.5);
    trace.Event("cudaLaunchKernel", begin_ms + 3.2, begin_ms + 4.0);
    trace.Kernel("gemm_f16_128x128", begin_ms + 4.0, begin_ms + 9.0);
  }
  run->AddWorker(0, "node0", trace);
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

// The GPU of rank 5 is too hot.
void MakeHot(MadeRun* run) {
  MakeGpus([](int rank) { return rank == 5; },
           [](int rank, TraceFile* trace) {
             for (int sample = 0; sample < 36; ++sample) {
               const bool hot = rank == 5 && sample > 3;
               trace->GpuCounter("clocks limited by heat", sample * 100, hot ? 1 : 0);
               trace->GpuCounter("SM clock (MHz)", sample * 100, hot ? 1200 : 1980);
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

// A rank that is late in every tenth step, `times` times.
void MakeLate(int ranks, int times, MadeRun* run) {
  run->AddRanks(ranks, 40, Jitter, [&](int rank, int step) {
    return rank == 3 && step % 10 == 7 && step < 10 * times ? 370.0 : 50.0;
  });
}

using Maker = std::function<void(MadeRun*)>;

const std::map<std::string, Maker>& Makers() {
  static const std::map<std::string, Maker> makers = {
      {"training", [](MadeRun* run) { MakeTraining({}, run); }},
      {"slower",
       [](MadeRun* run) {
         Training slower;
         slower.compute_ms = 75;
         MakeTraining(slower, run);
       }},
      {"crowd",
       [](MadeRun* run) {
         Training crowd;
         crowd.ranks = 1024;
         crowd.steps = 12;
         crowd.slow_rank = 517;
         MakeTraining(crowd, run);
       }},
      {"node",
       [](MadeRun* run) {
         run->AddRanks(16, 40, Jitter, [](int rank, int) { return rank / 4 == 2 ? 80.0 : 50.0; });
       }},
      {"one_step", MakeOneStep},
      {"transfer",
       [](MadeRun* run) { run->AddRanks(4, 40, Jitter, [](int, int) { return 12.0; }); }},
      {"independent", MakeIndependent},
      {"pipeline", MakePipeline},
      {"hot", MakeHot},
      {"gpu_model", MakeGpuModel},
      {"asleep", MakeAsleep},
      {"start", MakeStart},
      {"host_bound", MakeHostBound},
      {"late", [](MadeRun* run) { MakeLate(/*ranks=*/8, /*times=*/4, run); }},
      {"late_by_chance", [](MadeRun* run) { MakeLate(/*ranks=*/16, /*times=*/3, run); }},
      {"balanced", [](MadeRun* run) { run->AddRanks(8, 40, Jitter, Even); }},
      {"clocks",
       [](MadeRun* run) {
         run->AddRanks(4, 40, Jitter, [](int rank, int) { return rank == 1 ? 80.0 : 50.0; });
         for (auto& worker : run->workers_) worker["clock_uncertainty_ns"] = 40'000'000;
       }},
      {"short", [](MadeRun* run) { run->AddRanks(1, 5, Jitter, Even); }},
      {"few_steps", [](MadeRun* run) { run->AddRanks(4, 7, Jitter, Even); }},
      {"missing",
       [](MadeRun* run) {
         run->AddRanks(4, 40, Jitter, [](int, int) { return 12.0; });
         run->AddMissing("w4", "unreachable", "connection refused");
       }},
  };
  return makers;
}

int Main(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    std::fputs("usage: made_runs DIRECTORY [RUN...]\n", stderr);
    return 2;
  }
  std::set<std::string> wanted(arguments.begin() + 1, arguments.end());
  if (wanted.empty()) {
    for (const auto& [name, maker] : Makers()) {
      if (name != "crowd") wanted.insert(name);
    }
  }
  for (const std::string& name : wanted) {
    const auto maker = Makers().find(name);
    if (maker == Makers().end()) {
      std::fprintf(stderr, "made_runs: no run is named %s\n", name.c_str());
      return 2;
    }
    const std::string directory = arguments[0] + "/" + name;
    std::filesystem::create_directories(directory);
    MadeRun run(directory, name);
    maker->second(&run);
    run.WriteManifest();
  }
  return 0;
}

}  // namespace
}  // namespace jobscope::analysis

int main(int argc, char** argv) { return jobscope::analysis::Main({argv + 1, argv + argc}); }
