// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/analysis/made_runs/makers.h"

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

}  // namespace

Makers TrainingMakers() {
  return {
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
  };
}

}  // namespace jobscope::analysis
