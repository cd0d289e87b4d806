// SPDX-License-Identifier: Apache-2.0
//
// A training process on a GPU that is not there: steps, scopes and a server as in any worker, and
// on the fake libcupti the calls and kernels that its steps would have caused.
//
//   fake_gpu_worker --listen=127.0.0.1:0
//
// Each step of 20 ms: an augment kernel (6 ms) launched by another thread, a copy to the GPU (1
// ms), a forward kernel (4 ms) launched by the step's own thread. Kernels are given to CUPTI as
// they are launched, with the time at which they will have ended.
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <thread>

#include "jobscope/profiler_server.h"
#include "jobscope/trace.h"
#include "tests/collectors/cuda/fake_gpu.h"

namespace jobscope::cuda {
namespace {

constexpr uint64_t kMillisecondNs = 1'000'000;

volatile std::sig_atomic_t stop_requested = 0;

// The thread that launches augment kernels, one per request.
class Augmenter {
 public:
  explicit Augmenter(FakeGpu* gpu) : gpu_(gpu), thread_([this] { Run(); }) {}
  ~Augmenter() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    thread_.join();
  }
  // Returns when the kernel, which begins at `start_ns`, is launched.
  void Augment(uint64_t start_ns) {
    std::unique_lock<std::mutex> lock(mutex_);
    start_ns_ = start_ns;
    changed_.notify_all();
    changed_.wait(lock, [this] { return start_ns_ == 0; });
  }

 private:
  void Run() {
    SetThreadName("augmenter");
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return start_ns_ != 0 || ended_; });
      if (ended_) return;
      const uint32_t correlation = FakeGpu::NextCorrelation();
      gpu_->Emit(FakeGpu::Call(kLaunchKernelCall, correlation, RealtimeNs()));
      gpu_->Emit(FakeGpu::Kernel("_Z7augmentPKfPf", correlation, start_ns_, 6 * kMillisecondNs));
      start_ns_ = 0;
      changed_.notify_all();
    }
  }

  FakeGpu* const gpu_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t start_ns_ = 0;
  bool ended_ = false;
  std::thread thread_;
};

void Step(int64_t number, FakeGpu* gpu, Augmenter* augmenter) {
  JOBSCOPE_STEP("train", number);
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t begin_ns = RealtimeNs();
  {
    JOBSCOPE_SCOPE("augment");
    augmenter->Augment(begin_ns + kMillisecondNs);
  }
  {
    JOBSCOPE_SCOPE("forward");
    const uint32_t copy_id = FakeGpu::NextCorrelation();
    gpu->Emit(FakeGpu::Call(kCopyAsyncCall, copy_id, begin_ns));
    Activity copy;
    copy.type = ActivityType::kCopy;
    copy.sub_kind = 1;
    copy.source_memory = 2;
    copy.destination_memory = 3;
    copy.bytes = 1 << 20;
    copy.start_ns = begin_ns + 8 * kMillisecondNs;
    copy.end_ns = copy.start_ns + kMillisecondNs;
    copy.stream = 7;
    copy.correlation = copy_id;
    gpu->Emit(copy);
    const uint32_t correlation = FakeGpu::NextCorrelation();
    gpu->Emit(FakeGpu::Call(kLaunchKernelCall, correlation, RealtimeNs()));
    gpu->Emit(FakeGpu::Kernel("_Z7forwardIfEvPKT_PS0_", correlation, begin_ns + 10 * kMillisecondNs,
                              4 * kMillisecondNs));
  }
  JOBSCOPE_SCOPE("wait for the GPU");
  std::this_thread::sleep_until(begin + std::chrono::milliseconds(20));
}

int Main(int argc, char** argv) {
  static constexpr char kListen[] = "--listen=";
  if (argc != 2 || std::strncmp(argv[1], kListen, std::strlen(kListen)) != 0) return 2;
  std::signal(SIGTERM, [](int) { stop_requested = 1; });
  std::signal(SIGINT, [](int) { stop_requested = 1; });
  FakeGpu gpu(FAKE_CUPTI, FAKE_CUDA);
  ProfilerServerOptions options;
  options.address = argv[1] + std::strlen(kListen);
  const ProfilerServer server = ProfilerServer::Start(options);
  if (!server) {
    std::fprintf(stderr, "%s\n", server.error().c_str());
    return 1;
  }
  std::printf("listening on %s\n", server.address().c_str());
  std::fflush(stdout);
  Augmenter augmenter(&gpu);
  int64_t step = 0;
  for (; stop_requested == 0; ++step) Step(step, &gpu, &augmenter);
  std::printf("steps %lld, cuInit %d\n", static_cast<long long>(step), gpu.Inits());
  return 0;
}

}  // namespace
}  // namespace jobscope::cuda

int main(int argc, char** argv) { return jobscope::cuda::Main(argc, argv); }
