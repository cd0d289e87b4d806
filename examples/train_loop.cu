// SPDX-License-Identifier: Apache-2.0
//
// A small CUDA training loop with a profiler server: what a worker with a GPU looks like. Matrix
// products on one stream, copies of the next batch on a second one, the update of the weights as a
// CUDA graph, and now and then a deliberately slow input pipeline.
//
//   train_loop_cuda --listen=127.0.0.1:6009 [--seconds=S] [--steps=N] [--size=ROWS]
//                   [--stall_every=STEPS] [--stall_ms=M] [--device=N]
//   capture --service_addr=127.0.0.1:6009 --steps=20 --logdir=/tmp/logdir
#include <cuda_runtime.h>
#include <getopt.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "examples/step_times.h"
#include "jobscope/profiler_server.h"
#include "jobscope/trace.h"

namespace jobscope::example {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

// Set by SIGTERM and SIGINT, and read once per step.
std::atomic<bool> stop_requested{false};
extern "C" void RequestStop(int) { stop_requested = true; }

constexpr int kTile = 32;
constexpr int kBlock = 256;
constexpr int kProductsPerStep = 3;

// Computes c = a * b for square matrices of n rows; n is a multiple of the tile.
__global__ void Gemm(const float* a, const float* b, float* c, int n) {
  __shared__ float a_tile[kTile][kTile];
  __shared__ float b_tile[kTile][kTile + 1];
  const int row = blockIdx.y * kTile + threadIdx.y;
  const int column = blockIdx.x * kTile + threadIdx.x;
  float sum = 0.0F;
  for (int t = 0; t < n; t += kTile) {
    a_tile[threadIdx.y][threadIdx.x] = a[row * n + t + threadIdx.x];
    b_tile[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * n + column];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) sum += a_tile[threadIdx.y][k] * b_tile[k][threadIdx.x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

__global__ void Activate(float* values, int n, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) values[i] = tanhf(values[i] * scale);
}

__global__ void UpdateWeights(float* weights, const float* gradient, int n, float rate) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) weights[i] -= rate * gradient[i];
}

__global__ void MeanSquare(const float* values, int n, float* mean) {
  float sum = 0.0F;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    sum += values[i] * values[i];
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffffU, sum, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(mean, sum / static_cast<float>(n));
}

void Check(cudaError_t result, const char* what) {
  if (result == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
}

struct Options {
  std::string listen;
  double seconds = 0;  // 0: until SIGTERM, or the last step
  int64_t steps = 0;   // 0: no end
  int size = 1024;     // rows of the matrices
  int64_t stall_every = 10;
  double stall_ms = 20;
  int device = 0;
};

// Trains a network of one layer, with its data and its streams on one GPU.
class Network {
 public:
  explicit Network(int size) : size_(size), elements_(size * size) {
    Check(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking), "making a stream");
    Check(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking), "making a stream");
    for (int i = 0; i < 2; ++i) {
      Check(cudaMallocHost(&host_batch_[i], bytes()), "allocating pinned memory");
      Check(cudaMalloc(&batch_[i], bytes()), "allocating a batch");
      Check(cudaEventCreateWithFlags(&copied_[i], cudaEventDisableTiming), "making an event");
    }
    Check(cudaMalloc(&weights_, bytes()), "allocating weights");
    Check(cudaMalloc(&product_, bytes()), "allocating the product");
    Check(cudaMalloc(&gradient_, bytes()), "allocating the gradient");
    Check(cudaMalloc(&loss_, sizeof(float)), "allocating the loss");
    std::vector<float> initial(static_cast<size_t>(elements_));
    for (int i = 0; i < elements_; ++i) {
      initial[static_cast<size_t>(i)] = static_cast<float>(i % 97) / 97.0F - 0.5F;
    }
    Check(cudaMemcpy(weights_, initial.data(), bytes(), cudaMemcpyHostToDevice),
          "copying the weights");
    RecordUpdate();
  }

  // Fills a batch on the host, and starts its copy to the GPU on the copy stream.
  void Load(int64_t step) {
    JOBSCOPE_SCOPE("load", "step", step);
    const int slot = static_cast<int>(step % 2);
    // The copy before the last used this memory; it has ended, because its step has.
    for (int i = 0; i < size_; ++i) {
      host_batch_[slot][i] = static_cast<float>((step * 31 + i) % 101) / 101.0F;
    }
    Check(
        cudaMemcpyAsync(batch_[slot], host_batch_[slot], bytes(), cudaMemcpyHostToDevice, copies_),
        "copying a batch");
    Check(cudaEventRecord(copied_[slot], copies_), "recording an event");
  }

  float Train(int64_t step) {
    const int slot = static_cast<int>(step % 2);
    const dim3 grid(size_ / kTile, size_ / kTile);
    const dim3 block(kTile, kTile);
    {
      JOBSCOPE_SCOPE("forward");
      Check(cudaStreamWaitEvent(compute_, copied_[slot], 0), "waiting for the batch");
      for (int i = 0; i < kProductsPerStep; ++i) {
        Gemm<<<grid, block, 0, compute_>>>(batch_[slot], weights_, product_, size_);
        Activate<<<Blocks(), kBlock, 0, compute_>>>(product_, elements_, 0.01F);
      }
    }
    {
      JOBSCOPE_SCOPE("backward");
      Gemm<<<grid, block, 0, compute_>>>(product_, batch_[slot], gradient_, size_);
    }
    {
      JOBSCOPE_SCOPE("update");
      Check(cudaGraphLaunch(update_, compute_), "replaying the update");
    }
    Check(cudaGetLastError(), "launching kernels");
    JOBSCOPE_SCOPE("wait for the GPU");
    float loss = 0.0F;
    Check(cudaMemcpyAsync(&loss, loss_, sizeof(loss), cudaMemcpyDeviceToHost, compute_),
          "copying the loss");
    Check(cudaStreamSynchronize(compute_), "waiting for the step");
    return loss;
  }

 private:
  size_t bytes() const { return static_cast<size_t>(elements_) * sizeof(float); }
  int Blocks() const { return (elements_ + kBlock - 1) / kBlock; }

  // Records the end of a step as a graph, because it is the same in all of them.
  void RecordUpdate() {
    cudaGraph_t graph = nullptr;
    Check(cudaStreamBeginCapture(compute_, cudaStreamCaptureModeThreadLocal), "recording a graph");
    Check(cudaMemsetAsync(loss_, 0, sizeof(float), compute_), "recording a graph");
    MeanSquare<<<64, kBlock, 0, compute_>>>(gradient_, elements_, loss_);
    Activate<<<Blocks(), kBlock, 0, compute_>>>(gradient_, elements_, 0.001F);
    UpdateWeights<<<Blocks(), kBlock, 0, compute_>>>(weights_, gradient_, elements_, 1e-4F);
    Check(cudaStreamEndCapture(compute_, &graph), "recording a graph");
    Check(cudaGraphInstantiate(&update_, graph, 0), "making a graph");
    Check(cudaGraphDestroy(graph), "making a graph");
  }

  const int size_;
  const int elements_;
  cudaStream_t compute_ = nullptr;
  cudaStream_t copies_ = nullptr;
  cudaEvent_t copied_[2] = {};
  float* host_batch_[2] = {};
  float* batch_[2] = {};
  float* weights_ = nullptr;
  float* product_ = nullptr;
  float* gradient_ = nullptr;
  float* loss_ = nullptr;
  cudaGraphExec_t update_ = nullptr;
};

StepTimes Train(const Options& options, Network* network) {
  SetThreadName("trainer");
  StepTimes times;
  const Clock::time_point start = Clock::now();
  network->Load(0);
  for (int64_t step = 0; !stop_requested && (options.steps == 0 || step < options.steps); ++step) {
    const Clock::time_point begin = Clock::now();
    if (options.seconds > 0 && Milliseconds(begin - start).count() >= options.seconds * 1e3) break;
    {
      JOBSCOPE_STEP("train", step);
      {
        JOBSCOPE_INPUT_WAIT("next_batch");
        if (options.stall_every > 0 && step % options.stall_every == options.stall_every - 1) {
          std::this_thread::sleep_for(Milliseconds(options.stall_ms));
        }
      }
      network->Load(step + 1);
      const float loss = network->Train(step);
      JOBSCOPE_COUNTER("loss", loss);
    }
    times.Add(Milliseconds(Clock::now() - begin).count());
  }
  return times;
}

bool ParseOptions(int argc, char** argv, Options* options) {
  static const option kOptions[] = {{"listen", required_argument, nullptr, 'l'},
                                    {"seconds", required_argument, nullptr, 's'},
                                    {"steps", required_argument, nullptr, 'n'},
                                    {"size", required_argument, nullptr, 'r'},
                                    {"stall_every", required_argument, nullptr, 'e'},
                                    {"stall_ms", required_argument, nullptr, 'm'},
                                    {"device", required_argument, nullptr, 'd'},
                                    {nullptr, 0, nullptr, 0}};
  for (int flag; (flag = getopt_long(argc, argv, "", kOptions, nullptr)) != -1;) {
    switch (flag) {
      case 'l':
        options->listen = optarg;
        break;
      case 's':
        options->seconds = std::atof(optarg);
        break;
      case 'n':
        options->steps = std::atoll(optarg);
        break;
      case 'r':
        options->size = std::atoi(optarg);
        break;
      case 'e':
        options->stall_every = std::atoll(optarg);
        break;
      case 'm':
        options->stall_ms = std::atof(optarg);
        break;
      case 'd':
        options->device = std::atoi(optarg);
        break;
      default:
        return false;
    }
  }
  if (optind != argc || options->size < kTile || options->size > 16384 ||
      options->size % kTile != 0) {
    std::fprintf(stderr, "train_loop_cuda: --size is a multiple of %d, at most 16384\n", kTile);
    return false;
  }
  return true;
}

// Returns 0 if there is a GPU to train on.
int UseDevice(int ordinal) {
  int devices = 0;
  const cudaError_t result = cudaGetDeviceCount(&devices);
  if (result != cudaSuccess || devices == 0) {
    std::fprintf(stderr,
                 "train_loop_cuda: no CUDA device: %s. This example needs an NVIDIA GPU and its "
                 "driver; train_loop needs none.\n",
                 result == cudaSuccess ? "the driver sees no GPU" : cudaGetErrorString(result));
    return 1;
  }
  if (ordinal >= devices) {
    std::fprintf(stderr, "train_loop_cuda: --device=%d, but there are %d GPUs\n", ordinal, devices);
    return 1;
  }
  Check(cudaSetDevice(ordinal), "choosing the GPU");
  return 0;
}

int Main(int argc, char** argv) {
  Options options;
  if (!ParseOptions(argc, argv, &options)) return 2;
  std::signal(SIGTERM, RequestStop);
  std::signal(SIGINT, RequestStop);
  if (const int code = UseDevice(options.device); code != 0) return code;

  ProfilerServerOptions server_options;
  server_options.address = options.listen;
  const ProfilerServer server = ProfilerServer::Start(server_options);  // the only line needed
  if (server) {
    std::printf("listening on %s\n", server.address().c_str());
    std::fflush(stdout);
  } else {
    std::fprintf(stderr, "train_loop_cuda: no profiler server, training goes on: %s\n",
                 server.error().c_str());
  }
  Network network(options.size);
  const StepTimes times = Train(options, &network);
  std::printf("steps %llu, median %.2f ms, longest %.2f ms\n",
              static_cast<unsigned long long>(times.count()), times.median_ms(),
              times.longest_ms());
  return 0;
}

}  // namespace jobscope::example

int main(int argc, char** argv) {
  try {
    return jobscope::example::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_loop_cuda: %s\n", error.what());
    return 1;
  }
}
