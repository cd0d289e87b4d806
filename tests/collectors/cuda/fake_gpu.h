// SPDX-License-Identifier: Apache-2.0
//
// Opens the fake libcupti and libcuda, and makes GPU work.
#ifndef TESTS_COLLECTORS_CUDA_FAKE_GPU_H_
#define TESTS_COLLECTORS_CUDA_FAKE_GPU_H_

#include <dlfcn.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/collectors/cuda/fake_cupti/fake_cupti.h"
#include "tests/collectors/cuda/record_builder.h"

namespace jobscope::cuda {

inline constexpr uint32_t kLaunchKernelCall = 211;  // of the runtime
inline constexpr uint32_t kCopyAsyncCall = 41;
inline constexpr uint32_t kStreamSynchronizeCall = 131;
inline constexpr uint32_t kGraphLaunchCall = 311;
inline constexpr uint32_t kStreamBeginCaptureCall = 315;
inline constexpr uint32_t kStreamEndCaptureCall = 319;
inline constexpr uint32_t kDriverLaunchCall = 307;

inline uint64_t RealtimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

inline uint32_t ThreadId() { return static_cast<uint32_t>(syscall(SYS_gettid)); }

// One function of an open library.
template <typename Function>
void FindIn(void* library, const char* name, Function* function) {
  void* const found = dlsym(library, name);
  if (found == nullptr) {
    std::fprintf(stderr, "no %s: %s\n", name, dlerror());
    std::abort();
  }
  std::memcpy(function, &found, sizeof(found));
}

// Opens both fakes; they stay in the process. CUDA is in use.
class FakeGpu {
 public:
  FakeGpu(const std::string& cupti, const std::string& cuda) {
    // As an application has it: libcuda is mapped before anybody asks for it.
    cuda_ = dlopen(cuda.c_str(), RTLD_NOW);
    void* const library = dlopen(cupti.c_str(), RTLD_NOW);
    if (cuda_ == nullptr || library == nullptr) {
      std::fprintf(stderr, "%s\n", dlerror());
      std::abort();
    }
    FindIn(library, "FakeCuptiReset", &reset_);
    FindIn(library, "FakeCuptiSetRecordBytes", &SetRecordBytes);
    FindIn(library, "cuptiActivityGetNextRecord", &NextRecord);
    FindIn(library, "cuptiSubscribe", &Subscribe);
    FindIn(library, "cuptiActivityRegisterCallbacks", &RegisterCallbacks);
    FindIn(library, "cuptiActivityEnable", &Enable);
    FindIn(library, "cuptiActivityFlushAll", &FlushAll);
    FindIn(library, "FakeCuptiFail", &Fail);
    FindIn(library, "FakeCuptiHang", &Hang);
    FindIn(library, "FakeCuptiRelease", &Release);
    FindIn(library, "FakeCuptiAwaitHang", &AwaitHang);
    FindIn(library, "FakeCuptiCalls", &Calls);
    FindIn(library, "FakeCuptiIsEnabled", &IsEnabled);
    FindIn(library, "FakeCuptiIsSubscribed", &IsSubscribed);
    FindIn(library, "FakeCuptiSetOwner", &SetOwner);
    FindIn(library, "FakeCuptiSetClockOffset", &SetClockOffset);
    FindIn(library, "FakeCuptiAddDropped", &AddDropped);
    FindIn(library, "FakeCuptiReportState", &ReportState);
    FindIn(library, "FakeCuptiApiCall", &ApiCall);
    FindIn(library, "FakeCuptiApiSite", &ApiSite);
    FindIn(library, "FakeCuptiAttribute", &Attribute);
    FindIn(library, "FakeCuptiSetAttribute", &SetAttribute);
    FindIn(library, "FakeCuptiSetTimes", &SetTimes);
    FindIn(library, "FakeCuptiUnifiedMemoryCounters", &UnifiedMemoryCounters);
    FindIn(library, "FakeCuptiEmit", &emit_);
    FindIn(library, "FakeCuptiDeliver", &deliver_);
    FindIn(library, "FakeCuptiHoldBack", &hold_back_);
    FindIn(library, "FakeCuptiTake", &Take);
    FindIn(library, "FakeCuptiReturn", &Return);
    FindIn(cuda_, "FakeCudaSet", &SetDriver);
    FindIn(cuda_, "FakeCudaInits", &Inits);
    Reset(130001);
  }

  void Reset(uint32_t version) {
    reset_(version);
    version_ = version;
    SetDriver(0, 1, 13000);
  }
  uint32_t version() const { return version_; }

  // The number of the record; 0: it is not kept.
  uint64_t Emit(const Activity& activity) {
    if (activity.type == ActivityType::kApi) (void)ApiCall(activity.is_driver ? 1 : 2);
    const Bytes bytes = Encode(activity, version_);
    return emit_(bytes.data(), bytes.size());
  }
  uint64_t EmitBytes(const Bytes& bytes) { return emit_(bytes.data(), bytes.size()); }
  bool Deliver(const Bytes& bytes) { return deliver_(bytes.data(), bytes.size()) != 0; }
  void HoldBack(const Bytes& bytes) { hold_back_(bytes.data(), bytes.size()); }

  static uint32_t NextCorrelation() {
    static std::atomic<uint32_t> next{1};
    return next++;
  }

  // A call of this thread that has just ended.
  static Activity Call(uint32_t call, uint32_t correlation, uint64_t start_ns) {
    Activity api;
    api.type = ActivityType::kApi;
    api.call = call;
    api.correlation = correlation;
    api.start_ns = start_ns;
    api.end_ns = start_ns + 3'000;
    api.thread = ThreadId();
    return api;
  }
  static Activity Kernel(const char* name, uint32_t correlation, uint64_t start_ns,
                         uint64_t length_ns, uint32_t stream = 7, uint32_t device = 0) {
    Activity kernel;
    kernel.type = ActivityType::kKernel;
    kernel.name = name;
    kernel.correlation = correlation;
    kernel.start_ns = start_ns;
    kernel.end_ns = start_ns + length_ns;
    kernel.stream = stream;
    kernel.device = device;
    kernel.context = 1;
    kernel.registers = 32;
    kernel.dynamic_shared_bytes = 4096;
    kernel.grid[0] = 128;
    kernel.grid[1] = kernel.grid[2] = 1;
    kernel.block[0] = 256;
    kernel.block[1] = kernel.block[2] = 1;
    return kernel;
  }
  // A launch now, and its kernel 10 us later.
  uint32_t Launch(const char* name, uint64_t length_ns = 20'000, uint32_t stream = 7,
                  uint32_t device = 0) {
    const uint32_t correlation = NextCorrelation();
    const uint64_t now_ns = RealtimeNs();
    Emit(Call(kLaunchKernelCall, correlation, now_ns));
    Emit(Kernel(name, correlation, now_ns + 10'000, length_ns, stream, device));
    return correlation;
  }

  // A launch now, of a kernel that waits for its turn. SetTimes lets it run and end.
  uint64_t LaunchPending(const char* name, uint32_t stream = 7) {
    const uint32_t correlation = NextCorrelation();
    Activity kernel = Kernel(name, correlation, 0, 0, stream);
    const uint64_t work = Emit(kernel);
    Emit(Call(kLaunchKernelCall, correlation, RealtimeNs()));
    return work;
  }

  void (*SetRecordBytes)(uint32_t, size_t) = nullptr;
  int32_t (*NextRecord)(uint8_t* buffer, size_t valid, uint8_t** record) = nullptr;
  int32_t (*Subscribe)(void** subscriber, void (*)(void*, uint32_t, uint32_t, const void*),
                       void* userdata) = nullptr;
  int32_t (*RegisterCallbacks)(void (*)(uint8_t**, size_t*, size_t*),
                               void (*)(void*, uint32_t, uint8_t*, size_t, size_t)) = nullptr;
  int32_t (*Enable)(uint32_t kind) = nullptr;
  int32_t (*FlushAll)(uint32_t flags) = nullptr;
  void (*Fail)(const char*, int32_t, uint32_t) = nullptr;
  void (*Hang)(const char*) = nullptr;
  void (*Release)() = nullptr;
  int (*AwaitHang)() = nullptr;
  uint64_t (*Calls)(const char*) = nullptr;
  int (*IsEnabled)(uint32_t) = nullptr;
  int (*IsSubscribed)() = nullptr;
  void (*SetOwner)(const char*) = nullptr;
  void (*SetClockOffset)(int64_t) = nullptr;
  void (*AddDropped)(size_t) = nullptr;
  void (*ReportState)(uint32_t, int32_t, const char*) = nullptr;
  int (*ApiCall)(uint32_t) = nullptr;
  int (*ApiSite)(uint32_t, uint32_t, const char*) = nullptr;
  uint64_t (*Attribute)(uint32_t) = nullptr;
  void (*SetAttribute)(uint32_t, uint64_t) = nullptr;
  int (*SetTimes)(uint64_t, uint64_t, uint64_t) = nullptr;
  int (*UnifiedMemoryCounters)() = nullptr;
  void* (*Take)() = nullptr;
  void (*Return)(void*, const void*, size_t) = nullptr;
  // Result of cuDeviceGetCount, GPUs, version.
  void (*SetDriver)(int, int, int) = nullptr;
  int (*Inits)() = nullptr;

 private:
  void* cuda_ = nullptr;
  uint32_t version_ = 0;
  void (*reset_)(uint32_t) = nullptr;
  uint64_t (*emit_)(const void*, size_t) = nullptr;
  int (*deliver_)(const void*, size_t) = nullptr;
  void (*hold_back_)(const void*, size_t) = nullptr;
};

}  // namespace jobscope::cuda

#endif  // TESTS_COLLECTORS_CUDA_FAKE_GPU_H_
