// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/attachment.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "collectors/cuda/libraries/other_profilers.h"
#include "collectors/cuda/libraries/result_text.h"
#include "collectors/cuda/tracing/buffer_pool.h"
#include "collectors/cuda/tracing/detacher.h"
#include "collectors/cuda/tracing/left_kinds.h"
#include "collectors/cuda/tracing/state_log.h"

namespace jobscope::cuda {
namespace {

struct Kind {
  uint32_t kind;
  const char* what;  // for warnings
  uint32_t since;    // first version that has it
};
// Kernels first: without them there is no GPU part. The rest in the order of usefulness.
constexpr std::array<Kind, 8> kKinds = {{
    {kKindConcurrentKernel, "kernels", kCupti11_0},
    {kKindMemcpy, "copies", kCupti11_0},
    {kKindMemcpyPeer, "copies between GPUs", kCupti11_0},
    {kKindMemset, "memsets", kCupti11_0},
    {kKindRuntime, "calls of the CUDA runtime", kCupti11_0},
    {kKindDriver, "calls of the CUDA driver", kCupti11_0},
    {kKindSynchronization, "synchronisation", kCupti11_0},
    {kKindMemory, "memory allocations", kCupti11_2},
}};

// Frequent calls of frameworks without information; CUPTI omits them itself from 12.5 on. A test
// compares the numbers with NVIDIA's header if available.
constexpr std::array<uint32_t, 3> kNoisyRuntimeCalls = {17, 10, 11};  // cudaGetDevice,
                                                                      // cudaGetLastError,
                                                                      // cudaPeekAtLastError
constexpr std::array<uint32_t, 4> kNoisyDriverCalls =
    {304, 392, 686, 16};  // cuCtxGetCurrent, cuDevicePrimaryCtxGetState, cuKernelGetAttribute,
                          // cuCtxGetDevice

// CUpti_ActivityUnifiedMemoryCounterKind: bytes to and from the GPU, faults of CPU and GPU, bytes
// between GPUs. For all GPUs that the process uses.
constexpr std::array<uint32_t, 5> kUnifiedMemoryCounters = {1, 2, 3, 4, 8};
constexpr uint32_t kAllDevices = 2;

// Minimum buffers of CUPTI on the GPU per context: one is written while others are read.
constexpr size_t kMinDeviceBuffers = 2;
// Part of Begin's 3 s: PyTorch's profiler takes a second on first use.
constexpr absl::Duration kKinetoTimeout = absl::Seconds(2);

// Returns the subscriber's name in what CUPTI tells of it, "CUPTI for <name>"; empty if it has
// none, which CUPTI 13.0 to 13.5 tell as "CUPTI for <not provided>".
std::string SubscriberName(absl::string_view told) {
  told = absl::StripAsciiWhitespace(told);
  if (!absl::ConsumePrefix(&told, "CUPTI for")) absl::ConsumePrefix(&told, "CUPTI");
  told = absl::StripAsciiWhitespace(told);
  return told == "<not provided>" ? "" : std::string(told);
}

void OnCallback(void* /*userdata*/, uint32_t domain, uint32_t cbid, const void* data) {
  Detacher::Get().OnCallback(domain, data);
  if (domain == kDomainState) StateLog::Get().OnCallback(cbid, data);
}

// After a fatal error CUPTI detaches from the process, as cuptiFinalize does. Any later call could
// attach it again.
bool Gone() { return StateLog::Get().fatal(); }

}  // namespace

std::string Attachment::Failure(const char* name, CuptiResult result,
                                std::string_view owner) const {
  FailureContext context;
  context.call = name;
  context.cupti_version = api_->version;
  context.driver_version = options_.driver_version;
  context.old_owner = owner;
  // For most results CUPTI knows only their names.
  const char* message = nullptr;
  const char* its_name = nullptr;
  if (api_->cuptiGetErrorMessage != nullptr &&
      api_->cuptiGetErrorMessage(result, &message) == kCuptiSuccess && message != nullptr &&
      api_->cuptiGetResultString(result, &its_name) == kCuptiSuccess && its_name != nullptr &&
      std::strcmp(message, its_name) != 0) {
    context.own_message = message;
    // Some messages end in an empty line.
    context.own_message =
        context.own_message.substr(0, context.own_message.find_last_not_of(" \n") + 1);
  }
  return FailureText(result, context);
}

std::string Attachment::Owner() {
  if (api_->cuptiSubscribe_v2 == nullptr) return {};
  char owner[128] = {};
  SubscriberParams params{sizeof(params), "jobscope", owner, sizeof(owner) - 1};
  Subscriber other = nullptr;
  call = "cuptiSubscribe_v2";
  if (api_->cuptiSubscribe_v2(&other, &OnCallback, nullptr, &params) == kCuptiSuccess) {
    (void)api_->cuptiUnsubscribe(other);
    return {};
  }
  return SubscriberName(owner);
}

bool Attachment::GoWithoutSubscription(CuptiResult result) {
  // Kineto has no name: it subscribes by the older function.
  const std::string owner = result == kCuptiSuccess ? std::string() : Owner();
  if (!owner.empty()) {
    status_ = absl::FailedPreconditionError(Failure("cuptiSubscribe", result, owner));
    return false;
  }
  call = "looking for other profilers";
  const OtherProfiler other = FindOtherProfiler(kKinetoTimeout);
  if (other.kind != OtherProfiler::kKinetoRecords && result == kCuptiSuccess) return true;
  if (other.kind == OtherProfiler::kKineto) {
    warnings_.emplace_back(
        "PyTorch's profiler (Kineto) holds CUPTI's subscription, as it does from its first use on: "
        "traced without one. Kernels are tied to their launches as usual; what CUPTI detects by "
        "itself is not reported, and CUPTI is not finalized");
    return true;
  }
  if (other.kind == OtherProfiler::kKinetoRecords) {
    status_ = absl::FailedPreconditionError(
        absl::StrCat("torch.profiler records in this process, and CUPTI serves one profiler at a "
                     "time; capture again when its recording has ended (cuptiSubscribe: ",
                     result, ")"));
    return false;
  }
  status_ = absl::FailedPreconditionError(Failure("cuptiSubscribe", result, other.name));
  return false;
}

bool Attachment::Subscribe() {
  call = "looking for other profilers";
  if (const std::string detector = FindStragglerDetector(); !detector.empty()) {
    status_ = absl::FailedPreconditionError(absl::StrCat(
        "the straggler detector of nvidia-resiliency-ext (", detector,
        ") uses CUPTI in this process, and a capture would take its records away for the rest of "
        "the job; to trace the GPUs, start the job without the straggler detector"));
    return false;
  }
  if (LeftKinds::NeverDisable(api_->version, kKindConcurrentKernel) && api_->version < kCupti12_9) {
    if (const std::string xla = FindXla(); !xla.empty()) {
      status_ = absl::FailedPreconditionError(absl::StrCat(
          "CUPTI ", CuptiVersionText(api_->version),
          " cannot stop tracing kernels safely, and the buffers that it then needs would crash ",
          xla,
          "'s own tracer at its next recording; capture with --device_tracer=framework, or use "
          "libcupti 12.9 or 13"));
      return false;
    }
  }
  const bool beside_kineto = PyTorchHasCuda();
  call = "cuptiSubscribe";
  const CuptiResult result = api_->cuptiSubscribe(&subscriber_, &OnCallback, nullptr);
  if (result == kCuptiMultipleSubscribers) return GoWithoutSubscription(result);
  if (result != kCuptiSuccess) {
    status_ = absl::FailedPreconditionError(Failure("cuptiSubscribe", result));
    return false;
  }
  subscribed_ = true;
  was_free_ = true;
  // Kineto tries to subscribe once, on its first use: refused, it never traces a GPU again in this
  // process. So the subscription must be free while its first use may come.
  if (beside_kineto) {
    Unsubscribe();
    return GoWithoutSubscription(kCuptiSuccess);
  }
  if (api_->cuptiEnableDomain != nullptr && api_->version >= kCupti12_2) {
    call = "cuptiEnableDomain";
    (void)api_->cuptiEnableDomain(1, subscriber_, kDomainState);
  }
  return true;
}

void Attachment::Begin() {
  if (!Subscribe()) return;
  call = "cuptiActivityDisable";
  LeftKinds::Get().Disable();
  CuptiResult result = kCuptiSuccess;
  if (api_->cuptiSetThreadIdType != nullptr) {
    call = "cuptiSetThreadIdType";
    result = api_->cuptiSetThreadIdType(kThreadIdSystem);
    if (result != kCuptiSuccess) {
      warnings_.push_back(absl::StrCat("CUDA calls are not on their threads' lines: ",
                                       Failure("cuptiSetThreadIdType", result)));
    }
  }
  SetAttributes();
  call = "cuptiActivityRegisterCallbacks";
  result = api_->cuptiActivityRegisterCallbacks(&BufferPool::Request, &BufferPool::Complete);
  if (result != kCuptiSuccess) {
    status_ = absl::FailedPreconditionError(Failure("cuptiActivityRegisterCallbacks", result));
    return Undo();
  }
  for (const Kind& kind : kKinds) {
    if (api_->version < kind.since) continue;
    if (!Enable(kind.kind, kind.what) && kind.kind == kKindConcurrentKernel) return Undo();
  }
  if (options_.unified_memory) EnableUnifiedMemory();
  QuietNoisyCalls();
}

// Failures are ignored: they cost memory or time, but no record.
void Attachment::SetAttributes() {
  if (api_->cuptiActivityGetAttribute == nullptr || api_->cuptiActivitySetAttribute == nullptr) {
    return;
  }
  if (LeftKinds::Get().kernels_stay()) return;  // set already, and CUPTI records
  call = "cuptiActivitySetAttribute";
  size_t buffer_bytes = 0;
  size_t limit = 0;
  size_t size = sizeof(buffer_bytes);
  if (api_->cuptiActivityGetAttribute(kDeviceBufferSize, &size, &buffer_bytes) == kCuptiSuccess &&
      api_->cuptiActivityGetAttribute(kDeviceBufferPoolLimit, &size, &limit) == kCuptiSuccess &&
      buffer_bytes > 0) {
    size_t ours = std::max(kMinDeviceBuffers,
                           static_cast<size_t>(options_.device_buffer_bytes / buffer_bytes));
    if (ours < limit &&
        api_->cuptiActivitySetAttribute(kDeviceBufferPoolLimit, &size, &ours) == kCuptiSuccess) {
      own_pool_limit_ = limit;
    }
  }
  // One buffer for all threads makes them contend. 13 has one per thread, but Kineto switches that
  // off after each of its recordings. A change is undefined while something records, which nothing
  // does here. Before 12.8 a flush races with the threads.
  if (api_->version < kCupti12_8) return;
  uint8_t per_thread = 0;
  size = sizeof(per_thread);
  if (api_->cuptiActivityGetAttribute(kPerThreadBuffer, &size, &per_thread) != kCuptiSuccess ||
      per_thread != 0) {
    return;
  }
  per_thread = 1;
  (void)api_->cuptiActivitySetAttribute(kPerThreadBuffer, &size, &per_thread);
}

void Attachment::RestoreAttributes() {
  if (!own_pool_limit_.has_value() || LeftKinds::Get().kernels_stay() || Gone()) return;
  call = "cuptiActivitySetAttribute";
  size_t limit = *own_pool_limit_;
  size_t size = sizeof(limit);
  (void)api_->cuptiActivitySetAttribute(kDeviceBufferPoolLimit, &size, &limit);
  own_pool_limit_.reset();
}

// The counters must be configured before the kind is enabled.
void Attachment::EnableUnifiedMemory() {
  call = "cuptiActivityConfigureUnifiedMemoryCounter";
  std::array<UnifiedMemoryConfig, kUnifiedMemoryCounters.size()> configs{};
  for (size_t i = 0; i < configs.size(); ++i) {
    configs[i] = {kAllDevices, kUnifiedMemoryCounters[i], 0, 1};
  }
  const CuptiResult result = api_->cuptiActivityConfigureUnifiedMemoryCounter == nullptr
                                 ? kCuptiNotImplemented
                                 : api_->cuptiActivityConfigureUnifiedMemoryCounter(
                                       configs.data(), static_cast<uint32_t>(configs.size()));
  if (result == kCuptiSuccess) {
    (void)Enable(kKindUnifiedMemory, "unified memory");
  } else {
    warnings_.push_back(absl::StrCat("unified memory is not traced: ", Failure(call, result)));
  }
}

bool Attachment::Enable(uint32_t kind, const char* what) {
  call = "cuptiActivityEnable";
  const CuptiResult result = api_->cuptiActivityEnable(kind);
  if (result == kCuptiSuccess) {
    enabled_.push_back(kind);
    return true;
  }
  const std::string text = Failure("cuptiActivityEnable", result);
  if (kind == kKindConcurrentKernel) {
    status_ = absl::FailedPreconditionError(text);
  } else {
    warnings_.push_back(absl::StrCat(what, " are not traced: ", text));
  }
  return false;
}

void Attachment::QuietNoisyCalls() const {
  if (api_->cuptiActivityEnableRuntimeApi != nullptr) {
    for (const uint32_t cbid : kNoisyRuntimeCalls) {
      (void)api_->cuptiActivityEnableRuntimeApi(cbid, 0);
    }
  }
  if (api_->cuptiActivityEnableDriverApi != nullptr) {
    for (const uint32_t cbid : kNoisyDriverCalls) {
      (void)api_->cuptiActivityEnableDriverApi(cbid, 0);
    }
  }
}

void Attachment::Flush(bool forced) {
  if (Gone()) return;
  call = "cuptiActivityFlushAll";
  const CuptiResult result = api_->cuptiActivityFlushAll(forced ? kFlushForced : 0);
  if (result == kCuptiSuccess) return;
  std::string text = absl::StrCat("records may be missing: ", Failure(call, result));
  if (std::find(warnings_.begin(), warnings_.end(), text) == warnings_.end()) {
    warnings_.push_back(std::move(text));
  }
}

void Attachment::CountDropped() {
  if (Gone()) return;
  call = "cuptiActivityGetNumDroppedRecords";
  size_t count = 0;
  if (api_->cuptiActivityGetNumDroppedRecords(nullptr, 0, &count) == kCuptiSuccess) {
    dropped_ += count;
  }
}

// Overhead records may own memory, which the pool leaks if it recycles their buffer: it does not
// from here on.
void Attachment::Start() {
  CountDropped();
  dropped_ = 0;
  if (!Gone()) (void)Enable(kKindOverhead, "CUPTI's own overhead");
}

void Attachment::Disable() {
  if (Gone()) return;
  const bool shared = TorchProfilerRecords();
  std::vector<uint32_t> left;
  call = "cuptiActivityDisable";
  for (const uint32_t kind : std::exchange(enabled_, {})) {
    if (LeftKinds::NeverDisable(api_->version, kind)) {
      LeftKinds::Get().SetKernelsStay(true);
      continue;
    }
    if (shared && LeftKinds::MayBeShared(kind)) {
      left.push_back(kind);
      continue;
    }
    const CuptiResult result = api_->cuptiActivityDisable(kind);
    if (result != kCuptiSuccess) {
      warnings_.push_back(
          absl::StrCat("tracing could not be switched off: ", Failure(call, result)));
    }
  }
  if (left.empty()) return;
  LeftKinds::Get().Leave(api_, left);
  warnings_.emplace_back(
      "torch.profiler began to record during this capture: GPU records from then on are its own, "
      "and tracing stays on until its recording has ended");
}

// A forced flush would hand torch.profiler's unfinished records over, without their times.
void Attachment::End() {
  if (!enabled_.empty()) Flush(/*forced=*/!TorchProfilerRecords());
  Disable();
  // Where kernels stay traced, it would hand over those that were launched since then, without
  // times and without their calls.
  Flush(/*forced=*/!TorchProfilerRecords() && !LeftKinds::Get().kernels_stay());
  CountDropped();
}

// Another profiler may register its callbacks next, and would get them.
void Attachment::TakeBack() {
  if (!LeftKinds::Get().kernels_stay() || !BufferPool::Get().null_is_safe()) return;
  if (StateLog::Get().exits() || TorchProfilerRecords()) return;
  Flush(/*forced=*/true);
}

// Here and not in the session, which may no longer wait for the call.
void Attachment::NoteFinalized() {
  finalized_ = true;
  LeftKinds::Get().SetKernelsStay(false);
  BufferPool::Get().Forsake();
}

void Attachment::Unsubscribe() {
  RestoreAttributes();
  if (std::exchange(subscribed_, false) && !Gone()) {
    call = "cuptiUnsubscribe";
    const CuptiResult result = api_->cuptiUnsubscribe(subscriber_);
    subscriber_ = nullptr;
    if (result != kCuptiSuccess && !Gone()) {
      warnings_.push_back(absl::StrCat("CUPTI stays attached: ", Failure(call, result)));
    }
  }
  // Last: until here CUPTI may report that it has detached itself, and no further report comes.
  if (Gone()) NoteFinalized();
}

void Attachment::Detach(bool finalize, absl::Duration wait) {
  TakeBack();
  if (!finalize || !Finalize(wait)) Unsubscribe();
  if (!LeftKinds::Get().kernels_stay()) return;
  warnings_.push_back(absl::StrCat(
      "CUPTI ", CuptiVersionText(api_->version),
      " goes on tracing kernels after the capture, which may slow the job a little: to switch "
      "that off can block a process that uses CUDA graphs for ever, before CUDA 13.0 update 1"));
}

bool Attachment::Finalize(absl::Duration wait) {
  if (!was_free_ || Gone()) return false;
  if (TorchProfilerRecords() || !LeftKinds::Get().empty()) {
    warnings_.emplace_back("CUPTI is not finalized: torch.profiler records");
    return false;
  }
  RestoreAttributes();
  CuptiResult result = kCuptiSuccess;
  if (!subscribed_) {
    call = "cuptiSubscribe";
    result = api_->cuptiSubscribe(&subscriber_, &OnCallback, nullptr);
    if (result != kCuptiSuccess) {
      warnings_.push_back(
          absl::StrCat("CUPTI is not finalized: ", Failure("cuptiSubscribe", result)));
      return false;
    }
    subscribed_ = true;
  }
  call = "cuptiFinalize";
  const Detacher::Outcome outcome = Detacher::Get().Detach(api_, subscriber_, wait, &result);
  const std::string stays = "CUPTI stays loaded into CUDA, which may slow it a little";
  if (outcome != Detacher::Outcome::kDone) {
    warnings_.push_back(
        outcome == Detacher::Outcome::kNoCall
            ? absl::StrCat(stays,
                           ": it can be taken out only as a call returns that waits for the whole "
                           "context (cudaDeviceSynchronize, cuCtxSynchronize), and none did; the "
                           "next capture tries again")
            : absl::StrCat(stays, result == kCuptiSuccess ? "" : ": ",
                           result == kCuptiSuccess ? "" : Failure("cuptiEnableDomain", result)));
    return false;
  }
  subscribed_ = false;
  subscriber_ = nullptr;
  if (result == kCuptiSuccess) {
    NoteFinalized();
    return true;
  }
  warnings_.push_back(absl::StrCat(stays, ": ", Failure(call, result)));
  return false;
}

void Attachment::Undo() {
  Disable();
  TakeBack();
  Unsubscribe();
}

std::vector<std::string> Attachment::TakeWarnings() { return std::exchange(warnings_, {}); }

}  // namespace jobscope::cuda
