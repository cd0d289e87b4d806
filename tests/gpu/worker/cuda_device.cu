// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/worker/cupti_client.h"
#include "tests/gpu/worker/cupti_subscriber.h"
#include "tests/gpu/worker/device.h"

namespace jobscope::gpu_test {

// Outside of the unnamed namespace, so that traces show these names.

__global__ void CountedKernel(float* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] = data[i] * 0.5F + 1.0F;
}

__global__ void GraphKernel(float* data, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1.0F;
}

__global__ void ManagedKernel(int* data, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1;
}

__device__ void SpinFor(unsigned long long ns) {
  unsigned long long start = 0;
  unsigned long long now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < ns);
}

__global__ void SpinKernel(unsigned long long ns) { SpinFor(ns); }
__global__ void QueuedKernel(unsigned long long ns) { SpinFor(ns); }
__global__ void TimedKernel(unsigned long long ns) { SpinFor(ns); }

// c = a * b, square matrices of n rows; n is a multiple of the tile.
constexpr int kTile = 32;
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

__global__ void Update(float* weights, const float* product, const float* input, int n,
                       int input_n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    weights[i] = 0.9F * weights[i] + 0.1F * tanhf(0.05F * product[i] + input[i % input_n]);
  }
}

__global__ void Fill(float* data, int n, unsigned seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    unsigned x = (static_cast<unsigned>(i) + 1U) * 2654435761U + seed;
    x ^= x >> 16;
    x *= 0x45d9f3bU;
    x ^= x >> 16;
    data[i] = static_cast<float>(x & 0xffffU) / 65536.0F - 0.5F;
  }
}

namespace {

constexpr int kBlock = 256;
constexpr int kCountedFloats = 4096;
constexpr int kSize = 1024;  // rows of the matrices
constexpr int kElements = kSize * kSize;
constexpr int kInputFloats = 1 << 18;
constexpr int kProducts = 6;
constexpr int kUpdatesPerProduct = 3;

int Blocks(int64_t n) { return static_cast<int>((n + kBlock - 1) / kBlock); }

// Leaves the function with the call's error.
#define CUDA_TRY(call)                                                     \
  do {                                                                     \
    const cudaError_t result = (call);                                     \
    if (result != cudaSuccess) {                                           \
      return std::string(#call) + ": " + cudaGetErrorName(result) + ", " + \
             cudaGetErrorString(result);                                   \
    }                                                                      \
  } while (false)

class CudaDevice : public Device {
 public:
  Error Open(int ordinal) override {
    ordinal_ = ordinal;
    int count = 0;
    CUDA_TRY(cudaGetDeviceCount(&count));
    if (count == 0) return "no CUDA device";
    CUDA_TRY(cudaSetDevice(ordinal));
    CUDA_TRY(cudaFree(nullptr));  // makes the context
    CUDA_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    CUDA_TRY(cudaMalloc(&data_, kCountedFloats * sizeof(float)));
    CUDA_TRY(cudaMemset(data_, 0, kCountedFloats * sizeof(float)));
    return Finish();
  }

  Error Describe(DeviceInfo* info) override {
    // Not cudaGetDeviceProperties: of CUDA 12 and 13 it has one name and two structs.
    int major = 0;
    int minor = 0;
    CUDA_TRY(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal_));
    CUDA_TRY(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal_));
    info->compute_capability = std::to_string(major) + "." + std::to_string(minor);
    char name[256] = {};
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    void* const get_name = driver == nullptr ? nullptr : dlsym(driver, "cuDeviceGetName");
    if (get_name != nullptr) {
      (void)reinterpret_cast<int (*)(char*, int, int)>(get_name)(name, sizeof(name) - 1, ordinal_);
    }
    info->name = name;
    CUDA_TRY(cudaGetDeviceCount(&info->devices));
    CUDA_TRY(cudaDriverGetVersion(&info->driver_version));
    CUDA_TRY(cudaRuntimeGetVersion(&info->runtime_version));
    return {};
  }

  Error MemoryUsed(int64_t* bytes) override {
    size_t free = 0;
    size_t total = 0;
    CUDA_TRY(cudaMemGetInfo(&free, &total));
    *bytes = static_cast<int64_t>(total - free);
    return {};
  }

  Error Launch(int64_t kernels, int threads, int streams) override {
    std::mutex mutex;
    Error first;
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) {
      const int64_t share = kernels / threads + (t < kernels % threads ? 1 : 0);
      pool.emplace_back([&, share] {
        Error error = LaunchHere(share, streams);
        const std::lock_guard<std::mutex> lock(mutex);
        if (first.empty()) first = std::move(error);
      });
    }
    for (std::thread& thread : pool) thread.join();
    return first;
  }

  Error Copy(int64_t count, int64_t bytes) override {
    void* pinned = nullptr;
    void* source = nullptr;
    void* target = nullptr;
    const auto size = static_cast<size_t>(bytes);
    CUDA_TRY(cudaMallocHost(&pinned, size));
    CUDA_TRY(cudaMalloc(&source, size));
    CUDA_TRY(cudaMalloc(&target, size));
    std::memset(pinned, 1, size);
    for (int64_t i = 0; i < count; ++i) {
      CUDA_TRY(cudaMemcpyAsync(source, pinned, size, cudaMemcpyHostToDevice, stream_));
      CUDA_TRY(cudaMemcpyAsync(target, source, size, cudaMemcpyDeviceToDevice, stream_));
      CUDA_TRY(cudaMemcpyAsync(pinned, target, size, cudaMemcpyDeviceToHost, stream_));
      CUDA_TRY(cudaMemsetAsync(target, 0, size, stream_));
    }
    CUDA_TRY(cudaStreamSynchronize(stream_));
    CUDA_TRY(cudaFree(target));
    CUDA_TRY(cudaFree(source));
    CUDA_TRY(cudaFreeHost(pinned));
    return {};
  }

  Error Allocate(int64_t count, int64_t bytes, bool pool) override {
    const auto size = static_cast<size_t>(bytes);
    std::vector<void*> blocks(static_cast<size_t>(count));
    for (void*& block : blocks) {
      if (pool) {
        CUDA_TRY(cudaMallocAsync(&block, size, stream_));
      } else {
        CUDA_TRY(cudaMalloc(&block, size));
      }
    }
    for (void* const block : blocks) {
      if (pool) {
        CUDA_TRY(cudaFreeAsync(block, stream_));
      } else {
        CUDA_TRY(cudaFree(block));
      }
    }
    CUDA_TRY(cudaStreamSynchronize(stream_));
    return {};
  }

  Error MakeGraph(int kernels) override {
    if (graph_ != nullptr) CUDA_TRY(cudaGraphExecDestroy(std::exchange(graph_, nullptr)));
    if (graph_data_ == nullptr) CUDA_TRY(cudaMalloc(&graph_data_, 2 * kGraphBytes));
    cudaGraph_t graph = nullptr;
    CUDA_TRY(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < kernels; ++i) {
      GraphKernel<<<Blocks(kCountedFloats), kBlock, 0, stream_>>>(data_, kCountedFloats);
    }
    CUDA_TRY(cudaMemcpyAsync(graph_data_ + kGraphBytes, graph_data_, kGraphBytes,
                             cudaMemcpyDeviceToDevice, stream_));
    CUDA_TRY(cudaMemsetAsync(graph_data_, 0, kGraphBytes, stream_));
    CUDA_TRY(cudaStreamEndCapture(stream_, &graph));
    CUDA_TRY(cudaGraphInstantiate(&graph_, graph, 0));
    CUDA_TRY(cudaGraphDestroy(graph));
    return {};
  }

  Error ReplayGraph(int64_t times) override {
    if (graph_ == nullptr) return "no graph was made";
    for (int64_t i = 0; i < times; ++i) CUDA_TRY(cudaGraphLaunch(graph_, stream_));
    CUDA_TRY(cudaStreamSynchronize(stream_));
    return {};
  }

  Error Managed(int64_t times, int64_t bytes) override {
    int* data = nullptr;
    const int64_t n = bytes / static_cast<int64_t>(sizeof(int));
    CUDA_TRY(cudaMallocManaged(&data, static_cast<size_t>(bytes)));
    std::memset(data, 0, static_cast<size_t>(bytes));
    for (int64_t i = 0; i < times; ++i) {
      ManagedKernel<<<Blocks(n), kBlock, 0, stream_>>>(data, n);
      CUDA_TRY(cudaGetLastError());
      CUDA_TRY(cudaStreamSynchronize(stream_));
      for (int64_t at = 0; at < n; at += 1024) {
        if (data[at] != i + 1) return "managed memory holds a wrong value";
      }
    }
    CUDA_TRY(cudaFree(data));
    return {};
  }

  Error Peer(int64_t count, int64_t bytes) override {
    int devices = 0;
    CUDA_TRY(cudaGetDeviceCount(&devices));
    if (devices < 2) return "one GPU only";
    const auto size = static_cast<size_t>(bytes);
    void* blocks[2] = {};
    for (int i = 0; i < 2; ++i) {
      CUDA_TRY(cudaSetDevice(i));
      CUDA_TRY(cudaMalloc(&blocks[i], size));
    }
    CUDA_TRY(cudaSetDevice(0));
    for (int64_t i = 0; i < count; ++i) CUDA_TRY(cudaMemcpyPeer(blocks[1], 1, blocks[0], 0, size));
    CUDA_TRY(cudaDeviceSynchronize());
    for (int i = 0; i < 2; ++i) {
      CUDA_TRY(cudaSetDevice(i));
      CUDA_TRY(cudaDeviceSynchronize());
      CUDA_TRY(cudaFree(blocks[i]));
    }
    CUDA_TRY(cudaSetDevice(ordinal_));
    return {};
  }

  Error Spin(int64_t ms) override {
    SpinKernel<<<1, 1, 0, stream_>>>(static_cast<unsigned long long>(ms) * 1'000'000);
    CUDA_TRY(cudaGetLastError());
    return {};
  }

  Error Queue(int64_t kernels, int64_t us) override {
    for (int64_t i = 0; i < kernels; ++i) {
      QueuedKernel<<<1, 1, 0, stream_>>>(static_cast<unsigned long long>(us) * 1'000);
    }
    CUDA_TRY(cudaGetLastError());
    return {};
  }

  Error Timed(int64_t kernels, int64_t us, int64_t gap_us, Times* times) override {
    const auto count = static_cast<size_t>(kernels);
    std::vector<cudaEvent_t> begins(count);
    std::vector<cudaEvent_t> ends(count);
    for (size_t i = 0; i < count; ++i) {
      CUDA_TRY(cudaEventCreate(&begins[i]));
      CUDA_TRY(cudaEventCreate(&ends[i]));
    }
    for (size_t i = 0; i < count; ++i) {
      CUDA_TRY(cudaEventRecord(begins[i], stream_));
      TimedKernel<<<1, 1, 0, stream_>>>(static_cast<unsigned long long>(us) * 1'000);
      CUDA_TRY(cudaEventRecord(ends[i], stream_));
      SpinKernel<<<1, 1, 0, stream_>>>(static_cast<unsigned long long>(gap_us) * 1'000);
    }
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaStreamSynchronize(stream_));
    for (size_t i = 0; i < count; ++i) {
      float ms = 0;
      CUDA_TRY(cudaEventElapsedTime(&ms, begins[i], ends[i]));
      times->length_us.push_back(static_cast<double>(ms) * 1e3);
      if (i + 1 == count) break;
      CUDA_TRY(cudaEventElapsedTime(&ms, begins[i], begins[i + 1]));
      times->period_us.push_back(static_cast<double>(ms) * 1e3);
    }
    for (size_t i = 0; i < count; ++i) {
      CUDA_TRY(cudaEventDestroy(begins[i]));
      CUDA_TRY(cudaEventDestroy(ends[i]));
    }
    return {};
  }

  Error BuildGraph() override {
    CUDA_TRY(cudaSetDevice(ordinal_));
    if (own_ == nullptr) CUDA_TRY(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking));
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    // The strictest mode: what is not allowed in a capture, on any thread, breaks it.
    CUDA_TRY(cudaStreamBeginCapture(own_, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 4; ++i) {
      GraphKernel<<<Blocks(kCountedFloats), kBlock, 0, own_>>>(data_, kCountedFloats);
    }
    CUDA_TRY(cudaStreamEndCapture(own_, &graph));
    CUDA_TRY(cudaGraphInstantiate(&exec, graph, 0));
    CUDA_TRY(cudaGraphLaunch(exec, own_));
    CUDA_TRY(cudaStreamSynchronize(own_));
    CUDA_TRY(cudaGraphExecDestroy(exec));
    CUDA_TRY(cudaGraphDestroy(graph));
    return {};
  }

  Error Finish() override {
    CUDA_TRY(cudaDeviceSynchronize());
    return {};
  }

  Error Reset() override {
    CUDA_TRY(cudaSetDevice(ordinal_));
    if (a_ == nullptr) {
      CUDA_TRY(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
      CUDA_TRY(cudaStreamCreateWithFlags(&copies_, cudaStreamNonBlocking));
      CUDA_TRY(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming));
      CUDA_TRY(cudaMalloc(&a_, kElements * sizeof(float)));
      CUDA_TRY(cudaMalloc(&weights_, kElements * sizeof(float)));
      CUDA_TRY(cudaMalloc(&product_, kElements * sizeof(float)));
      CUDA_TRY(cudaMalloc(&input_, kInputFloats * sizeof(float)));
      CUDA_TRY(cudaMallocHost(&host_input_, kInputFloats * sizeof(float)));
    }
    for (int i = 0; i < kInputFloats; ++i) host_input_[i] = static_cast<float>(i % 251) / 251.0F;
    Fill<<<Blocks(kElements), kBlock, 0, compute_>>>(a_, kElements, 1);
    Fill<<<Blocks(kElements), kBlock, 0, compute_>>>(weights_, kElements, 2);
    CUDA_TRY(cudaGetLastError());
    CUDA_TRY(cudaStreamSynchronize(compute_));
    return {};
  }

  Error TrainStep(int64_t step) override {
    for (int i = 0; i < 64; ++i) host_input_[i] = static_cast<float>((step + i) % 127) / 127.0F;
    CUDA_TRY(cudaMemcpyAsync(input_, host_input_, kInputFloats * sizeof(float),
                             cudaMemcpyHostToDevice, copies_));
    CUDA_TRY(cudaEventRecord(copied_, copies_));
    CUDA_TRY(cudaStreamWaitEvent(compute_, copied_, 0));
    const dim3 grid(kSize / kTile, kSize / kTile);
    const dim3 block(kTile, kTile);
    for (int i = 0; i < kProducts; ++i) {
      Gemm<<<grid, block, 0, compute_>>>(a_, weights_, product_, kSize);
      for (int k = 0; k < kUpdatesPerProduct; ++k) {
        Update<<<Blocks(kElements), kBlock, 0, compute_>>>(weights_, product_, input_, kElements,
                                                           kInputFloats);
      }
    }
    CUDA_TRY(cudaGetLastError());
    // Not only the stream: as this returns, CUPTI may be finalized.
    CUDA_TRY(cudaDeviceSynchronize());
    return {};
  }

  Error Checksum(uint64_t* sum) override {
    std::vector<unsigned char> bytes(kElements * sizeof(float));
    CUDA_TRY(
        cudaMemcpyAsync(bytes.data(), weights_, bytes.size(), cudaMemcpyDeviceToHost, compute_));
    CUDA_TRY(cudaStreamSynchronize(compute_));
    uint64_t hash = 14695981039346656037ULL;  // FNV-1a
    for (const unsigned char byte : bytes) hash = (hash ^ byte) * 1099511628211ULL;
    *sum = hash;
    return {};
  }

  Error Subscribe(const std::string& path, const std::string& name) override {
    return subscriber_.Subscribe(path, name);
  }
  Error Unsubscribe() override { return subscriber_.Unsubscribe(); }
  Error StartClient(const std::string& path) override { return client_.Start(path); }
  Error StopClient(int64_t* kernels) override { return client_.Stop(kernels); }

 private:
  static constexpr size_t kGraphBytes = 1 << 16;

  Error LaunchHere(int64_t kernels, int streams) const {
    CUDA_TRY(cudaSetDevice(ordinal_));
    std::vector<cudaStream_t> own(static_cast<size_t>(streams));
    for (cudaStream_t& stream : own) {
      CUDA_TRY(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    for (int64_t i = 0; i < kernels; ++i) {
      cudaStream_t const stream = own[static_cast<size_t>(i % streams)];
      CountedKernel<<<Blocks(kCountedFloats), kBlock, 0, stream>>>(data_, kCountedFloats);
    }
    CUDA_TRY(cudaGetLastError());
    for (cudaStream_t const stream : own) {
      CUDA_TRY(cudaStreamSynchronize(stream));
      CUDA_TRY(cudaStreamDestroy(stream));
    }
    return {};
  }

  int ordinal_ = 0;
  cudaStream_t stream_ = nullptr;
  float* data_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  unsigned char* graph_data_ = nullptr;
  CuptiSubscriber subscriber_;
  CuptiClient client_;
  cudaStream_t own_ = nullptr;  // BuildGraph's

  // The training job.
  cudaStream_t compute_ = nullptr;
  cudaStream_t copies_ = nullptr;
  cudaEvent_t copied_ = nullptr;
  float* a_ = nullptr;
  float* weights_ = nullptr;
  float* product_ = nullptr;
  float* input_ = nullptr;
  float* host_input_ = nullptr;
};

}  // namespace

std::unique_ptr<Device> MakeDevice(const DeviceOptions& /*options*/) {
  return std::make_unique<CudaDevice>();
}

}  // namespace jobscope::gpu_test
