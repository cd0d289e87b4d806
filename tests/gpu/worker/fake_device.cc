// SPDX-License-Identifier: Apache-2.0
//
// The same work on the fake libcupti: what a GPU and CUPTI would have recorded of it. `fault` makes
// it do one thing wrong, so that each check of the runner can be seen to fail.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/collectors/cuda/fake_gpu.h"
#include "tests/gpu/worker/cupti_client.h"
#include "tests/gpu/worker/device.h"

namespace jobscope::gpu_test {
namespace {

using cuda::Activity;
using cuda::ActivityType;
using cuda::FakeGpu;

constexpr uint64_t kMicrosecondNs = 1'000;
constexpr uint32_t kMallocCall = 20;
constexpr uint32_t kDeviceMemory = 3;
constexpr uint32_t kPinnedMemory = 2;
constexpr uint8_t kAllocated = 1;
constexpr uint8_t kReleased = 2;

constexpr char kCounted[] = "_ZN8jobscope8gpu_test13CountedKernelEPfi";
constexpr char kGraph[] = "_ZN8jobscope8gpu_test11GraphKernelEPfi";
constexpr char kManaged[] = "_ZN8jobscope8gpu_test13ManagedKernelEPil";
constexpr char kSpin[] = "_ZN8jobscope8gpu_test10SpinKernelEy";
constexpr char kQueued[] = "_ZN8jobscope8gpu_test12QueuedKernelEy";
constexpr char kTimed[] = "_ZN8jobscope8gpu_test11TimedKernelEy";
constexpr char kGemm[] = "_ZN8jobscope8gpu_test4GemmEPKfS2_Pfi";

class FakeDevice : public Device {
 public:
  explicit FakeDevice(const DeviceOptions& options) : options_(options) {
    if (Faulty("child")) pthread_atfork(nullptr, nullptr, [] { _exit(9); });
  }
  ~FakeDevice() override {
    if (Faulty("bad_exit")) std::_Exit(5);
    if (queue_.joinable()) queue_.join();
  }

  Error Open(int ordinal) override {
    if (options_.fake_cupti.empty()) return "--fake_cupti is not given";
    ordinal_ = static_cast<uint32_t>(ordinal);
    gpu_ = std::make_unique<FakeGpu>(options_.fake_cupti, options_.fake_cuda);
    gpu_->SetDriver(0, 2, 13000);
    return {};
  }

  Error Describe(DeviceInfo* info) override {
    *info = {"Fake H100", "9.0", 2, 13000, 13000};
    return {};
  }

  Error MemoryUsed(int64_t* bytes) override {
    *bytes = (int64_t{1} << 30) + leaked_bytes_;
    if (Faulty("big_gpu") && gpu_->IsEnabled(cuda::kKindConcurrentKernel) != 0)
      *bytes += int64_t{1} << 30;
    if (Faulty("leak_gpu")) leaked_bytes_ += int64_t{8} << 20;
    if (Faulty("leak_host")) host_leak_.emplace_back(size_t{8} << 20, 'x');
    return {};
  }

  Error Launch(int64_t kernels, int threads, int streams) override {
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) {
      const int64_t share = kernels / threads + (t < kernels % threads ? 1 : 0);
      pool.emplace_back([this, t, share, streams] {
        for (int64_t i = 0; i < share; ++i) {
          LaunchOne(i, static_cast<uint32_t>(20 + t * streams + static_cast<int>(i % streams)));
        }
      });
    }
    for (std::thread& thread : pool) thread.join();
    if (Faulty("forget_drops")) ForgetDrops();
    return Finish();
  }

  Error Copy(int64_t count, int64_t bytes) override {
    struct Kind {
      uint8_t kind, source, destination;
    };
    constexpr Kind kKinds[] = {{1, kPinnedMemory, kDeviceMemory},   // to the GPU
                               {8, kDeviceMemory, kDeviceMemory},   // within
                               {2, kDeviceMemory, kPinnedMemory}};  // back
    for (int64_t i = 0; i < count; ++i) {
      for (const Kind& kind : kKinds) {
        Activity copy = Work(ActivityType::kCopy);
        copy.sub_kind = Faulty("copy_kind") && kind.kind == 2 ? 1 : kind.kind;
        copy.source_memory = kind.source;
        copy.destination_memory = kind.destination;
        copy.bytes = static_cast<uint64_t>(bytes) - (Faulty("copy_bytes") ? 1 : 0);
        copy.is_async = true;
        Emit(cuda::kCopyAsyncCall, copy);
      }
      if (Faulty("memset")) continue;
      Activity set = Work(ActivityType::kSet);
      set.bytes = static_cast<uint64_t>(bytes);
      set.source_memory = kDeviceMemory;
      Emit(cuda::kCopyAsyncCall, set);
    }
    return Finish();
  }

  Error Allocate(int64_t count, int64_t bytes, bool /*pool*/) override {
    for (const uint8_t operation : {kAllocated, kReleased}) {
      for (int64_t i = 0; i < count; ++i) {
        if (Faulty("keep_allocation") && operation == kReleased && i == 0) continue;
        Activity memory;
        memory.type = ActivityType::kMemory;
        memory.sub_kind = operation;
        memory.source_memory = kDeviceMemory;
        memory.bytes = static_cast<uint64_t>(bytes) + (Faulty("allocation_bytes") ? 512 : 0);
        memory.address = 0x7f00'0000'0000 + static_cast<uint64_t>(i) * 0x1000'0000;
        memory.start_ns = cuda::RealtimeNs();
        memory.device = ordinal_;
        memory.context = 1;
        memory.correlation = FakeGpu::NextCorrelation();
        gpu_->Emit(FakeGpu::Call(kMallocCall, memory.correlation, memory.start_ns));
        gpu_->Emit(memory);
      }
    }
    return {};
  }

  Error MakeGraph(int kernels) override {
    graph_kernels_ = kernels;
    // Calls that build: they return as launches do, without an effect.
    const auto call = [this](uint32_t which) {
      gpu_->Emit(FakeGpu::Call(which, FakeGpu::NextCorrelation(), cuda::RealtimeNs()));
    };
    if (!Faulty("graph_calls")) call(cuda::kStreamBeginCaptureCall);
    for (int i = 0; i < kernels; ++i) call(cuda::kLaunchKernelCall);
    if (!Faulty("graph_calls")) call(cuda::kStreamEndCaptureCall);
    return {};
  }

  Error ReplayGraph(int64_t times) override {
    if (graph_kernels_ == 0) return "no graph was made";
    ++replays_;
    const bool lose = Faulty("graph_later") && replays_ > 1;
    for (int64_t i = 0; i < times; ++i) {
      const uint32_t correlation = FakeGpu::NextCorrelation();
      const uint64_t now_ns = cuda::RealtimeNs();
      gpu_->Emit(FakeGpu::Call(cuda::kGraphLaunchCall, correlation, now_ns));
      for (int k = 0; k < graph_kernels_ - (lose ? 1 : 0); ++k) {
        Activity kernel =
            FakeGpu::Kernel(kGraph, correlation, now_ns + 10 * kMicrosecondNs * (k + 1),
                            5 * kMicrosecondNs, 7, ordinal_);
        kernel.graph = 3;
        kernel.graph_node = static_cast<uint64_t>(k) + 1;
        gpu_->Emit(kernel);
      }
    }
    return Finish();
  }

  Error Managed(int64_t times, int64_t /*bytes*/) override {
    for (int64_t i = 0; i < times; ++i) {
      gpu_->Launch(kManaged, 20 * kMicrosecondNs, 7, ordinal_);
      // A fault of the page tables reaches the program as an error, not as a wrong count.
      if (Faulty("managed")) return "managed memory holds a wrong value";
    }
    return Finish();
  }

  Error Peer(int64_t count, int64_t bytes) override {
    for (int64_t i = 0; i < count; ++i) {
      Activity copy = Work(ActivityType::kCopy);
      copy.sub_kind = 10;
      copy.source_memory = copy.destination_memory = kDeviceMemory;
      copy.bytes = static_cast<uint64_t>(bytes) - (Faulty("peer_bytes") ? 1 : 0);
      copy.peer_source = 0;
      copy.peer_destination = 1;
      Emit(cuda::kCopyAsyncCall, copy);
    }
    return Finish();
  }

  // A kernel that is in flight: its launch is recorded, and itself when it has ended.
  Error Spin(int64_t ms) override {
    if (Faulty("stop_hangs")) gpu_->Hang("cuptiActivityDisable");
    if (Faulty("no_spin")) return {};
    const uint32_t correlation = FakeGpu::NextCorrelation();
    const uint64_t now_ns = cuda::RealtimeNs();
    gpu_->Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, now_ns));
    spinning_ = FakeGpu::Kernel(kSpin, correlation, now_ns + 10 * kMicrosecondNs,
                                static_cast<uint64_t>(ms) * 1'000'000, 7, ordinal_);
    return {};
  }

  // Each is launched now, and runs when those before it have ended.
  Error Queue(int64_t kernels, int64_t us) override {
    if (Faulty("stop_hangs_queue")) gpu_->Hang("cuptiActivityDisable");
    std::vector<uint64_t> works;
    for (int64_t i = 0; i < kernels; ++i) {
      if (Faulty("queue_silent") && i == 0) continue;
      works.push_back(gpu_->LaunchPending(kQueued));
      if (Faulty("queue_double") && i == 0) works.push_back(gpu_->LaunchPending(kQueued));
    }
    const uint64_t length_ns = static_cast<uint64_t>(us) * kMicrosecondNs;
    // The first one begins at once, as on an idle GPU, however late the thread is run.
    uint64_t start_ns = cuda::RealtimeNs();
    if (!works.empty() && works[0] != 0) (void)gpu_->SetTimes(works[0], start_ns, 0);
    queue_ = std::thread([this, works = std::move(works), length_ns, start_ns]() mutable {
      for (const uint64_t work : works) {
        if (work != 0) (void)gpu_->SetTimes(work, start_ns, 0);
        SleepUntil(start_ns + length_ns);
        if (work != 0) (void)gpu_->SetTimes(work, start_ns, start_ns + length_ns);
        start_ns += length_ns;
      }
    });
    return {};
  }

  Error Timed(int64_t kernels, int64_t us, int64_t gap_us, Times* times) override {
    uint64_t at_ns = cuda::RealtimeNs() + 10 * kMicrosecondNs;
    const uint64_t length_ns = static_cast<uint64_t>(us) * kMicrosecondNs;
    const uint64_t period_ns = length_ns + static_cast<uint64_t>(gap_us) * kMicrosecondNs;
    for (int64_t i = 0; i < kernels; ++i) {
      const uint32_t correlation = FakeGpu::NextCorrelation();
      gpu_->Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, cuda::RealtimeNs()));
      gpu_->Emit(FakeGpu::Kernel(kTimed, correlation,
                                 at_ns + (Faulty("gap") && i > 3 ? length_ns : 0),
                                 Faulty("long_kernel") ? 2 * length_ns : length_ns, 7, ordinal_));
      times->length_us.push_back(static_cast<double>(length_ns) / 1e3);
      if (i + 1 < kernels) times->period_us.push_back(static_cast<double>(period_ns) / 1e3);
      at_ns += period_ns;
    }
    SleepUntil(at_ns + period_ns);
    return {};
  }

  Error BuildGraph() override {
    // CUPTI's calls are not allowed in a capture.
    if (Faulty("capture_breaks") && gpu_->IsEnabled(cuda::kKindConcurrentKernel) != 0) {
      return "cudaStreamEndCapture: cudaErrorStreamCaptureInvalidated";
    }
    const auto call = [this](uint32_t which) {
      gpu_->Emit(FakeGpu::Call(which, FakeGpu::NextCorrelation(), cuda::RealtimeNs()));
    };
    call(cuda::kStreamBeginCaptureCall);
    call(cuda::kLaunchKernelCall);
    call(cuda::kStreamEndCaptureCall);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return {};
  }

  Error Finish() override {
    if (queue_.joinable()) queue_.join();
    const uint64_t end_ns = spinning_.correlation == 0 ? cuda::RealtimeNs() : spinning_.end_ns;
    SleepUntil(end_ns + 100 * kMicrosecondNs);
    if (spinning_.correlation != 0) gpu_->Emit(spinning_);
    spinning_ = {};
    gpu_->Release();
    return {};
  }

  Error Reset() override {
    state_ = 1;
    return {};
  }

  Error TrainStep(int64_t step) override {
    const bool traced = gpu_->IsEnabled(cuda::kKindConcurrentKernel) != 0;
    ever_traced_ = ever_traced_ || traced;
    if (!Faulty("no_gemm") || step % 3 == 0) gpu_->Launch(kGemm, 100 * kMicrosecondNs, 7, ordinal_);
    constexpr std::chrono::milliseconds kLength(2);
    const bool slow = (Faulty("slow_traced") && traced) ||
                      (Faulty("slow_ours") && traced && !client_.running()) ||
                      (Faulty("slow_after") && ever_traced_ && !traced);
    std::this_thread::sleep_for(kLength);
    now_ += kLength * (slow ? 4 : 1);
    state_ = state_ * 6364136223846793005ULL + static_cast<uint64_t>(step) + 1;
    if (Faulty("wrong_sum") && traced) ++state_;
    return {};
  }

  Error Checksum(uint64_t* sum) override {
    *sum = state_;
    return {};
  }

  // Passes in steps only, so that a busy machine does not change their length.
  std::chrono::nanoseconds Now() const override { return now_; }

  Error Subscribe(const std::string& /*path*/, const std::string& name) override {
    gpu_->SetOwner(Faulty("owner") ? "somebody" : name.c_str());
    return {};
  }
  Error StartClient(const std::string& path) override { return client_.Start(path); }
  Error StopClient(int64_t* kernels) override { return client_.Stop(kernels); }
  Error Unsubscribe() override {
    gpu_->SetOwner(nullptr);
    return {};
  }

 private:
  bool Faulty(const char* fault) const { return options_.fault == fault; }

  // A CUPTI that does not tell what it dropped.
  void ForgetDrops() const {
    void* const library = dlopen(options_.fake_cupti.c_str(), RTLD_NOW | RTLD_NOLOAD);
    int32_t (*dropped)(void*, uint32_t, size_t*) = nullptr;
    cuda::FindIn(library, "cuptiActivityGetNumDroppedRecords", &dropped);
    size_t count = 0;
    (void)dropped(nullptr, 0, &count);
  }

  static void SleepUntil(uint64_t realtime_ns) {
    const uint64_t now_ns = cuda::RealtimeNs();
    if (realtime_ns > now_ns) {
      std::this_thread::sleep_for(std::chrono::nanoseconds(realtime_ns - now_ns));
    }
  }

  Activity Work(ActivityType type) const {
    Activity work;
    work.type = type;
    work.device = ordinal_;
    work.context = 1;
    work.stream = 7;
    return work;
  }

  // A call now, and what it caused.
  void Emit(uint32_t call, Activity work) {
    const uint64_t now_ns = cuda::RealtimeNs();
    work.correlation = FakeGpu::NextCorrelation();
    work.start_ns = now_ns + 5 * kMicrosecondNs;
    work.end_ns = work.start_ns + 10 * kMicrosecondNs;
    gpu_->Emit(FakeGpu::Call(call, work.correlation, now_ns));
    gpu_->Emit(work);
  }

  void LaunchOne(int64_t i, uint32_t stream) {
    if (Faulty("vanish") && i == 0) return;
    if (Faulty("vanish_calls") && i == 0) gpu_->AddDropped(1);
    const uint32_t correlation = FakeGpu::NextCorrelation();
    const uint64_t now_ns = cuda::RealtimeNs();
    gpu_->Emit(FakeGpu::Call(cuda::kLaunchKernelCall, correlation, now_ns));
    if (Faulty("lose") && i == 0) return;
    const bool early = Faulty("early") && i % 100 == 0;
    const uint64_t start_ns = now_ns + 10 * kMicrosecondNs - (early ? 20 * kMicrosecondNs : 0);
    Activity kernel = FakeGpu::Kernel(kCounted, correlation, start_ns, 5 * kMicrosecondNs,
                                      Faulty("one_stream") ? 7 : stream, ordinal_);
    if (Faulty("uncorrelated") && i == 0) kernel.correlation = 0x7fff'0000;
    if (Faulty("wrong_device")) kernel.device = 1 - ordinal_;
    gpu_->Emit(kernel);
    if (Faulty("double") && i == 0) gpu_->Emit(kernel);
  }

  const DeviceOptions options_;
  std::unique_ptr<FakeGpu> gpu_;
  uint32_t ordinal_ = 0;
  int graph_kernels_ = 0;
  int replays_ = 0;
  int64_t leaked_bytes_ = 0;
  std::vector<std::string> host_leak_;
  Activity spinning_;
  std::thread queue_;  // the GPU that works it off
  CuptiClient client_;
  uint64_t state_ = 1;
  bool ever_traced_ = false;
  std::chrono::nanoseconds now_{0};
};

}  // namespace

std::unique_ptr<Device> MakeDevice(const DeviceOptions& options) {
  return std::make_unique<FakeDevice>(options);
}

}  // namespace jobscope::gpu_test
