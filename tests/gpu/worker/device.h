// SPDX-License-Identifier: Apache-2.0
//
// GPU work with known counts: on a real GPU (cuda_device.cu), or on the fake libcupti
// (fake_device.cc), so that the checks themselves can be tested where no GPU is.
#ifndef TESTS_GPU_WORKER_DEVICE_H_
#define TESTS_GPU_WORKER_DEVICE_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace jobscope::gpu_test {

// Empty: done. Otherwise what went wrong, for people.
using Error = std::string;

struct DeviceInfo {
  std::string name;
  std::string compute_capability;  // "9.0"
  int devices = 0;
  int driver_version = 0;   // 13000 is 13.0
  int runtime_version = 0;  // the same
};

// All functions but Open and TrainStep wait until their work is done, unless they say otherwise.
// Belongs to one thread, but for TrainStep, Reset and Checksum, which may have one of their own,
// and BuildGraph, which may have another.
class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // The first call that touches CUDA.
  virtual Error Open(int ordinal) = 0;
  virtual Error Describe(DeviceInfo* info) = 0;
  // Bytes in use on the whole GPU.
  virtual Error MemoryUsed(int64_t* bytes) = 0;

  // `kernels` launches of CountedKernel, by `threads` threads with `streams` streams each.
  virtual Error Launch(int64_t kernels, int threads, int streams) = 0;
  // `count` times: pinned memory to the GPU, within the GPU, back to pinned memory, and a memset;
  // each of `bytes` bytes.
  virtual Error Copy(int64_t count, int64_t bytes) = 0;
  // `count` allocations of `bytes` bytes, and their releases; from the stream's pool or not.
  virtual Error Allocate(int64_t count, int64_t bytes, bool pool) = 0;
  // A graph of `kernels` GraphKernels one after the other, a copy and a memset.
  virtual Error MakeGraph(int kernels) = 0;
  virtual Error ReplayGraph(int64_t times) = 0;
  // ManagedKernel increments `bytes` of managed memory, `times` times; the host reads them between.
  virtual Error Managed(int64_t times, int64_t bytes) = 0;
  // `count` copies between the first two GPUs.
  virtual Error Peer(int64_t count, int64_t bytes) = 0;
  // Starts a kernel that runs for `ms`, and returns at once.
  virtual Error Spin(int64_t ms) = 0;
  // Launches QueuedKernels of `us` each, one after the other, and returns at once.
  virtual Error Queue(int64_t kernels, int64_t us) = 0;
  // TimedKernels of `us` each, `gap_us` of another kernel between them: how long each took, and how
  // long it was from its begin to that of the next one, by CUDA's events.
  struct Times {
    std::vector<double> length_us;
    std::vector<double> period_us;
  };
  virtual Error Timed(int64_t kernels, int64_t us, int64_t gap_us, Times* times) = 0;
  // Captures a stream into a graph of its own, and throws it away.
  virtual Error BuildGraph() = 0;
  virtual Error Finish() = 0;

  // A training job whose state after n steps is a function of n, bit for bit. A step: a copy of 1
  // MiB on a second stream, 6 products of matrices of 1024 x 1024, 18 element-wise kernels.
  virtual Error Reset() = 0;
  virtual Error TrainStep(int64_t step) = 0;
  virtual Error Checksum(uint64_t* sum) = 0;
  // The clock of steps.
  virtual std::chrono::nanoseconds Now() const {
    return std::chrono::steady_clock::now().time_since_epoch();
  }

  // Occupies CUPTI, as another profiler would: the library at `path`, under `name` where it can.
  virtual Error Subscribe(const std::string& path, const std::string& name) = 0;
  virtual Error Unsubscribe() = 0;
  // Traces by the activity API, as PyTorch's profiler does, with buffers of its own. `kernels`: how
  // many it got.
  virtual Error StartClient(const std::string& path) = 0;
  virtual Error StopClient(int64_t* kernels) = 0;
};

struct DeviceOptions {
  // Of the fake: its libraries, and what it is to do wrong ("" nothing).
  std::string fake_cupti;
  std::string fake_cuda;
  std::string fault;
};
// Each program links one implementation.
std::unique_ptr<Device> MakeDevice(const DeviceOptions& options);

}  // namespace jobscope::gpu_test

#endif  // TESTS_GPU_WORKER_DEVICE_H_
