// SPDX-License-Identifier: Apache-2.0
//
// What CUPTI does to a process beside threads that use the GPU, without any part of jobscope:
// docs/gpu_tests.md, "CUPTI without jobscope". Attaches and detaches it as a profiler does, and
// prints the results. A crash ends in a backtrace and exit code 100 + the signal.
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "collectors/cuda/libraries/cupti_api.h"
#include "tests/gpu/study/cuda_driver.h"

namespace jobscope::gpu_test {
namespace {

constexpr int kNoGpu = 77;
constexpr size_t kBufferBytes = size_t{1} << 20;
constexpr size_t kBuffers = 3000;  // only those that are used take memory
constexpr char kPtx[] = R"(.version 7.8
.target sm_80
.address_size 64
.visible .entry add(.param .u64 p) {
  .reg .b64 %rd<4>; .reg .f32 %f<3>; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd2, %rd2, %rd3;
  ld.global.f32 %f1, [%rd2]; add.f32 %f2, %f1, 0f3F800000; st.global.f32 [%rd2], %f2; ret; })";

struct Options {
  std::string libcupti;
  std::string work = "launch";
  int captures = 100;
  bool kernels_only = false;
  bool disable_kernels = false;
  bool never_force = false;
  bool per_thread = false;
  bool null_between = false;
  bool watch = false;
  bool between_recordings = false;
};

template <typename Function>
void Find(Handle library, const char* name, Function* function) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "no %s\n", name);
    std::exit(kNoGpu);
  }
  std::memcpy(function, &found, sizeof(found));
}

void Check(int32_t result, const char* what) {
  if (result == 0) return;
  std::fprintf(stderr, "%s: %d\n", what, result);
  _exit(1);
}

void OnSignal(int signal) {
  std::array<void*, 40> frames{};
  const int count = backtrace(frames.data(), static_cast<int>(frames.size()));
  backtrace_symbols_fd(frames.data(), count, STDERR_FILENO);
  _exit(100 + signal);
}

// CUPTI's callbacks have no pointer.
struct Buffers {
  uint8_t* data = nullptr;
  uint8_t* copies = nullptr;  // of returned ones, with `watch`
  bool null_between = false;
  bool watch = false;
  int32_t (*next_record)(uint8_t*, size_t, uint8_t**) = nullptr;
  std::array<std::atomic<bool>, kBuffers> lent{};
  std::array<std::atomic<bool>, kBuffers> watched{};
  std::atomic<bool> idle{true};
  std::atomic<int64_t> kernels{0};
  std::atomic<int64_t> records{0};
  std::atomic<int64_t> not_read_to_their_end{0};
  int64_t returned = 0;    // watched ones
  int64_t written_to = 0;  // of these, after their return
};
Buffers& buffers() {
  static auto* const buffers = new Buffers;
  return *buffers;
}

void Request(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = nullptr;
  *size = *max_records = 0;
  if (buffers().idle && buffers().null_between) return;
  for (size_t i = 0; i < kBuffers; ++i) {
    if (buffers().lent[i].exchange(true)) continue;
    *buffer = buffers().data + i * kBufferBytes;
    *size = kBufferBytes;
    return;
  }
}

void Complete(void* /*context*/, uint32_t /*stream*/, uint8_t* buffer, size_t /*size*/,
              size_t valid) {
  if (buffer == nullptr) return;
  Buffers& all = buffers();
  const size_t number = static_cast<size_t>(buffer - all.data) / kBufferBytes;
  if (!all.idle && valid > 0) {
    uint8_t* record = nullptr;
    int32_t result = 0;
    while ((result = all.next_record(buffer, valid, &record)) == 0) {
      ++all.records;
      uint32_t kind = 0;
      std::memcpy(&kind, record, sizeof(kind));
      if (kind == cuda::kKindConcurrentKernel) ++all.kernels;
    }
    if (result != cuda::kCuptiMaxLimitReached) ++all.not_read_to_their_end;
  }
  if (all.watch && valid > 0) {  // and is not lent again
    std::memcpy(all.copies + number * kBufferBytes, buffer, kBufferBytes);
    all.watched[number] = true;
    return;
  }
  all.lent[number] = false;
}

void CountThoseWrittenTo() {
  Buffers& all = buffers();
  for (size_t i = 0; i < kBuffers; ++i) {
    if (!all.watched[i].exchange(false)) continue;
    uint8_t* const copy = all.copies + i * kBufferBytes;
    ++all.returned;
    if (std::memcmp(copy, all.data + i * kBufferBytes, kBufferBytes) != 0) ++all.written_to;
    (void)madvise(copy, kBufferBytes, MADV_DONTNEED);
  }
}

// A program that uses the GPU on threads of its own.
class Program {
 public:
  Program(const Options& options, std::mutex* recording)
      : recording_(options.between_recordings ? recording : nullptr) {
    Handle const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(kNoGpu);
    }
#define JOBSCOPE_STUDY_FIND(name, symbol, parameters) Find(library, symbol, &cuda_.name);
    JOBSCOPE_STUDY_DRIVER(JOBSCOPE_STUDY_FIND)
#undef JOBSCOPE_STUDY_FIND
    int device = 0;
    if (cuda_.Init(0) != 0 || cuda_.DeviceGet(&device, 0) != 0) std::exit(kNoGpu);
    Check(cuda_.RetainContext(&context_, device), "cuDevicePrimaryCtxRetain");
    Check(cuda_.SetContext(context_), "cuCtxSetCurrent");
    Handle module = nullptr;
    Check(cuda_.LoadModule(&module, kPtx), "cuModuleLoadData");
    Check(cuda_.GetFunction(&kernel_, module, "add"), "cuModuleGetFunction");
    Check(cuda_.Allocate(&data_, kBufferBytes), "cuMemAlloc");
    // A recording in the global mode forbids other threads to record.
    const bool builds = options.work == "build";
    for (int i = 0; i < (builds ? 1 : 2); ++i)
      threads_.emplace_back([this, builds] { Run(builds); });
  }
  ~Program() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  int64_t rounds() const { return rounds_; }

 private:
  void Run(bool builds) {
    Check(cuda_.SetContext(context_), "cuCtxSetCurrent");
    Handle compute = nullptr;
    Handle copy = nullptr;
    Check(cuda_.CreateStream(&compute, kNonBlocking), "cuStreamCreate");
    Check(cuda_.CreateStream(&copy, kNonBlocking), "cuStreamCreate");
    for (; !stop_; ++rounds_) {
      if (builds) {
        BuildGraph(compute);
      } else {
        Step(compute, copy);
      }
    }
  }
  void LaunchKernels(Handle stream, int count) {
    std::array<void*, 1> parameters{&data_};
    for (int i = 0; i < count; ++i) {
      Check(cuda_.Launch(kernel_, 1, 1, 1, 64, 1, 1, 0, stream, parameters.data(), nullptr),
            "cuLaunchKernel");
    }
  }
  void Step(Handle compute, Handle copy) {
    static const std::vector<char> host(size_t{1} << 16);
    LaunchKernels(compute, 24);
    Check(cuda_.CopyToDevice(data_, host.data(), host.size(), copy), "cuMemcpyHtoDAsync");
    Check(cuda_.Synchronize(), "cuCtxSynchronize");
  }
  void BuildGraph(Handle stream) {
    Handle graph = nullptr;
    Handle executable = nullptr;
    if (recording_ != nullptr) recording_->lock();
    Check(cuda_.BeginCapture(stream, kCaptureModeGlobal), "cuStreamBeginCapture");
    LaunchKernels(stream, 10);
    Check(cuda_.EndCapture(stream, &graph), "cuStreamEndCapture");
    if (recording_ != nullptr) {
      recording_->unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(50));  // or nobody else gets it
    }
    Check(cuda_.Instantiate(&executable, graph, 0), "cuGraphInstantiate");
    Check(cuda_.DestroyGraph(graph), "cuGraphDestroy");
    Check(cuda_.LaunchGraph(executable, stream), "cuGraphLaunch");
    Check(cuda_.SynchronizeStream(stream), "cuStreamSynchronize");
    Check(cuda_.DestroyExecutable(executable), "cuGraphExecDestroy");
  }

  std::mutex* const recording_;
  CudaDriver cuda_;
  Handle context_ = nullptr;
  Handle kernel_ = nullptr;
  DevicePointer data_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> rounds_{0};
  std::vector<std::thread> threads_;
};

class Profiler {
 public:
  Profiler(const Options& options, std::mutex* recording)
      : options_(options), recording_(recording) {
    Handle const library = dlopen(options.libcupti.c_str(), RTLD_NOW);
    if (library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::exit(2);
    }
    Find(library, "cuptiSubscribe", &subscribe_);
    Find(library, "cuptiUnsubscribe", &unsubscribe_);
    Find(library, "cuptiActivityEnable", &enable_);
    Find(library, "cuptiActivityDisable", &disable_);
    Find(library, "cuptiActivityFlushAll", &flush_);
    Find(library, "cuptiActivityRegisterCallbacks", &register_);
    Find(library, "cuptiActivityGetNextRecord", &buffers().next_record);
    if (options.per_thread) {
      int32_t (*set)(uint32_t, size_t*, void*) = nullptr;
      Find(library, "cuptiActivitySetAttribute", &set);
      uint8_t on = 1;
      size_t size = sizeof(on);
      Check(set(cuda::kPerThreadBuffer, &size, &on), "cuptiActivitySetAttribute");
    }
    kinds_ = {cuda::kKindConcurrentKernel};
    if (options.kernels_only) return;
    for (const uint32_t kind :
         {cuda::kKindMemcpy, cuda::kKindMemcpyPeer, cuda::kKindMemset, cuda::kKindRuntime,
          cuda::kKindDriver, cuda::kKindSynchronization, cuda::kKindMemory}) {
      kinds_.push_back(kind);
    }
  }

  void Capture() {
    using std::chrono::milliseconds;
    Handle subscriber = nullptr;
    {
      const std::lock_guard<std::mutex> lock(*recording_);
      Check(subscribe_(
                &subscriber, [](void*, uint32_t, uint32_t, const void*) {}, nullptr),
            "cuptiSubscribe");
      Check(register_(&Request, &Complete), "cuptiActivityRegisterCallbacks");
      buffers().idle = false;
      for (const uint32_t kind : kinds_) (void)enable_(kind);
    }
    std::this_thread::sleep_for(milliseconds(23));
    (void)flush_(0);
    if (!options_.never_force) (void)flush_(cuda::kFlushForced);
    for (const uint32_t kind : kinds_) {
      if (kind != cuda::kKindConcurrentKernel || options_.disable_kernels) (void)disable_(kind);
    }
    (void)flush_(0);
    std::this_thread::sleep_for(milliseconds(2));
    (void)flush_(0);
    buffers().idle = true;
    if (options_.null_between && !options_.never_force) (void)flush_(cuda::kFlushForced);
    (void)unsubscribe_(subscriber);
    std::this_thread::sleep_for(milliseconds(3));
    CountThoseWrittenTo();
  }

 private:
  const Options& options_;
  std::mutex* const recording_;
  std::vector<uint32_t> kinds_;
  int32_t (*subscribe_)(Handle*, cuda::SubscriberCallback, void*) = nullptr;
  int32_t (*unsubscribe_)(Handle) = nullptr;
  int32_t (*enable_)(uint32_t) = nullptr;
  int32_t (*disable_)(uint32_t) = nullptr;
  int32_t (*flush_)(uint32_t) = nullptr;
  int32_t (*register_)(cuda::BufferRequested, cuda::BufferCompleted) = nullptr;
};

uint8_t* Map(size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::exit(1);
  return static_cast<uint8_t*>(memory);
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Shows what CUPTI does to a process beside threads that use the GPU.");
  app.add_option("--libcupti", options.libcupti, "the library to study")->required();
  app.add_option("--work", options.work,
                 "launch: two threads launch kernels, copy and wait; "
                 "build: one records, launches and destroys graphs")
      ->check(CLI::IsMember({"launch", "build"}));
  app.add_option("--captures", options.captures, "number of times that CUPTI is attached");
  app.add_flag("--kernels_only", options.kernels_only, "enable no other kind of record");
  app.add_flag("--disable_kernels", options.disable_kernels,
               "disable kernels, too; from 12.5 to 13.0 that can block for ever");
  app.add_flag("--never_force", options.never_force, "force no flush");
  app.add_flag("--per_thread", options.per_thread, "a buffer for each thread, from 12.8 on");
  app.add_flag("--null_between", options.null_between, "no buffers between captures, from 12.9 on");
  app.add_flag("--watch", options.watch,
               "count returned buffers that CUPTI writes to; for some 200 captures");
  app.add_flag("--between_recordings", options.between_recordings,
               "attach only while no graph is being recorded");
  CLI11_PARSE(app, argc, argv);

  std::array<void*, 1> frame{};
  (void)backtrace(frame.data(), 1);  // loads what it needs, before a crash
  for (const int number : {SIGSEGV, SIGABRT, SIGBUS}) (void)signal(number, &OnSignal);
  buffers().data = Map(kBuffers * kBufferBytes);
  buffers().copies = Map(kBuffers * kBufferBytes);
  buffers().null_between = options.null_between;
  buffers().watch = options.watch;

  std::mutex recording;
  Program program(options, &recording);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  Profiler profiler(options, &recording);
  for (int i = 0; i < options.captures; ++i) profiler.Capture();
  const Buffers& all = buffers();
  const auto print = [](const char* name, int64_t value) {
    std::printf("%s %lld\n", name, static_cast<long long>(value));
  };
  print("captures", options.captures);
  print("rounds", program.rounds());
  print("records", all.records);
  print("kernels", all.kernels);
  print("not_read_to_their_end", all.not_read_to_their_end);
  print("watched", all.returned);
  print("written_after_return", all.written_to);
  return 0;
}

}  // namespace
}  // namespace jobscope::gpu_test

int main(int argc, char** argv) { return jobscope::gpu_test::Main(argc, argv); }
