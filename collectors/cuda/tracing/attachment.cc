// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing/attachment.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectors/cuda/libraries/other_profilers.h"
#include "collectors/cuda/tracing/buffer_pool.h"
#include "collectors/cuda/tracing/detacher.h"
#include "collectors/cuda/tracing/left_kinds.h"
#include "collectors/cuda/tracing/state_log.h"
#include "common/clock/monotonic.h"

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
// cudaGetDevice, cudaGetLastError, cudaPeekAtLastError:
constexpr std::array<uint32_t, 3> kNoisyRuntimeCalls = {17, 10, 11};
// cuCtxGetCurrent, cuDevicePrimaryCtxGetState, cuKernelGetAttribute, cuCtxGetDevice:
constexpr std::array<uint32_t, 4> kNoisyDriverCalls = {304, 392, 686, 16};

// CUpti_ActivityUnifiedMemoryCounterKind: bytes to and from the GPU, faults of CPU and GPU, bytes
// between GPUs. For all GPUs that the process uses.
constexpr std::array<uint32_t, 5> kUnifiedMemoryCounters = {1, 2, 3, 4, 8};
constexpr uint32_t kAllDevices = 2;

// A call that was under way when its kind was disabled, and its record, usually end within
// microseconds.
constexpr int kTakeBackRounds = 4;
constexpr absl::Duration kTakeBackEvery = absl::Milliseconds(3);

// After a fatal error CUPTI detaches from the process, as cuptiFinalize does. Any later call could
// attach it again.
bool Gone() { return StateLog::Get().fatal(); }

}  // namespace

void Attachment::Begin() {
  status_ = subscription_.Begin();
  if (!status_.ok()) return;
  report_.call = "cuptiActivityDisable";
  LeftKinds::Get().Disable();
  CuptiResult result = kCuptiSuccess;
  if (api_->cuptiSetThreadIdType != nullptr) {
    report_.call = "cuptiSetThreadIdType";
    result = api_->cuptiSetThreadIdType(kThreadIdSystem);
    if (result != kCuptiSuccess) {
      report_.Warn(absl::StrCat("CUDA calls are not on their threads' lines: ",
                                report_.Failure("cuptiSetThreadIdType", result)));
    }
  }
  attributes_.Set(options_.device_buffer_bytes);
  report_.call = "cuptiActivityRegisterCallbacks";
  result = api_->cuptiActivityRegisterCallbacks(&BufferPool::Request, &BufferPool::Complete);
  if (result != kCuptiSuccess) {
    status_ =
        absl::FailedPreconditionError(report_.Failure("cuptiActivityRegisterCallbacks", result));
    return Undo();
  }
  for (const Kind& kind : kKinds) {
    if (api_->version < kind.since) continue;
    if (!Enable(kind.kind, kind.what) && kind.kind == kKindConcurrentKernel) return Undo();
  }
  if (options_.unified_memory) EnableUnifiedMemory();
  QuietNoisyCalls();
}

// The counters must be configured before the kind is enabled.
void Attachment::EnableUnifiedMemory() {
  report_.call = "cuptiActivityConfigureUnifiedMemoryCounter";
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
    report_.Warn(
        absl::StrCat("unified memory is not traced: ", report_.Failure(report_.call, result)));
  }
}

bool Attachment::Enable(uint32_t kind, const char* what) {
  report_.call = "cuptiActivityEnable";
  const CuptiResult result = api_->cuptiActivityEnable(kind);
  if (result == kCuptiSuccess) {
    enabled_.push_back(kind);
    return true;
  }
  const std::string text = report_.Failure("cuptiActivityEnable", result);
  if (kind == kKindConcurrentKernel) {
    status_ = absl::FailedPreconditionError(text);
  } else {
    report_.Warn(absl::StrCat(what, " are not traced: ", text));
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
  report_.call = "cuptiActivityFlushAll";
  const CuptiResult result = api_->cuptiActivityFlushAll(forced ? kFlushForced : 0);
  if (result == kCuptiSuccess) return;
  report_.WarnOnce(
      absl::StrCat("records may be missing: ", report_.Failure("cuptiActivityFlushAll", result)));
}

void Attachment::CountDropped() {
  if (Gone()) return;
  report_.call = "cuptiActivityGetNumDroppedRecords";
  size_t count = 0;
  if (api_->cuptiActivityGetNumDroppedRecords(nullptr, 0, &count) == kCuptiSuccess) {
    dropped_ += count;
  }
}

// Overhead records may own memory, which the pool leaks if it recycles their buffer: it does not
// from here on.
void Attachment::Start(absl::Time begin) {
  CountDropped();
  if (SteadyNow() <= begin) dropped_ = 0;  // a late count may hold records of the window
  if (!Gone()) (void)Enable(kKindOverhead, "CUPTI's own overhead");
}

void Attachment::Disable() {
  if (Gone()) return;
  const bool shared = TorchProfilerRecords();
  std::vector<uint32_t> left;
  report_.call = "cuptiActivityDisable";
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
      report_.Warn(absl::StrCat("tracing could not be switched off: ",
                                report_.Failure(report_.call, result)));
    }
  }
  if (left.empty()) return;
  LeftKinds::Get().Leave(api_, left);
  report_.Warn(
      "torch.profiler still records at the end of this capture: GPU tracing stays on until its "
      "recording has ended");
}

// A forced flush would hand torch.profiler's unfinished records over, without their times.
void Attachment::End(bool all_came) {
  if (!all_came && !enabled_.empty()) Flush(/*forced=*/!TorchProfilerRecords());
  Disable();
  // Where kernels stay traced, force would hand over those that were launched since then, without
  // times and without their calls.
  Flush(!all_came && !TorchProfilerRecords() && !LeftKinds::Get().kernels_stay());
  CountDropped();
}

// Another profiler may register its callbacks next, and would get them.
void Attachment::TakeBack() {
  FlushUntilBack();
  BufferPool::Get().StopKeeping();
  if (options_.discard_kept) options_.discard_kept();
}

void Attachment::FlushUntilBack() {
  BufferPool& pool = BufferPool::Get();
  if (LeftKinds::Get().kernels_stay() && !pool.null_is_safe()) return;
  for (int round = 0; pool.HasLent(); ++round) {
    if (Gone() || StateLog::Get().exits()) return;
    // It gets them.
    if (TorchProfilerRecords() || !LeftKinds::Get().empty()) return pool.Disregard(UINT64_MAX);
    if (round == kTakeBackRounds) {
      Flush(/*forced=*/true);
      return pool.Disregard(UINT64_MAX);
    }
    Flush(/*forced=*/false);
    absl::SleepFor(kTakeBackEvery);
  }
}

// Here and not in the session, which may no longer wait for the call.
void Attachment::NoteFinalized() {
  finalized_ = true;
  LeftKinds::Get().SetKernelsStay(false);
  BufferPool::Get().Forsake();
}

void Attachment::Unsubscribe() {
  attributes_.Restore();
  subscription_.End();
  // Last: until here CUPTI may report that it has detached itself, and no further report comes.
  if (Gone()) NoteFinalized();
}

void Attachment::Detach(bool finalize, absl::Duration wait) {
  TakeBack();
  if (!finalize || !Finalize(wait)) Unsubscribe();
}

bool Attachment::Finalize(absl::Duration wait) {
  if (!subscription_.was_free() || Gone()) return false;
  if (TorchProfilerRecords() || !LeftKinds::Get().empty()) {
    report_.Warn("CUPTI is not finalized: torch.profiler records");
    return false;
  }
  attributes_.Restore();
  if (!subscription_.Renew()) return false;
  report_.call = "cuptiFinalize";
  CuptiResult result = kCuptiSuccess;
  const Detacher::Outcome outcome =
      Detacher::Get().Detach(api_, subscription_.subscriber(), wait, &result);
  const std::string stays = "CUPTI stays loaded into CUDA, which may slow it a little";
  if (outcome != Detacher::Outcome::kDone) {
    report_.Warn(
        outcome == Detacher::Outcome::kNoCall
            ? absl::StrCat(stays,
                           ": it can be taken out only as a call returns that waits for the whole "
                           "context (cudaDeviceSynchronize, cuCtxSynchronize), and none did; the "
                           "next capture tries again")
            : absl::StrCat(
                  stays, result == kCuptiSuccess ? "" : ": ",
                  result == kCuptiSuccess ? "" : report_.Failure("cuptiEnableDomain", result)));
    return false;
  }
  subscription_.Forget();
  if (result == kCuptiSuccess) {
    NoteFinalized();
    return true;
  }
  report_.Warn(absl::StrCat(stays, ": ", report_.Failure(report_.call, result)));
  return false;
}

void Attachment::Undo() {
  Disable();
  TakeBack();
  Unsubscribe();
}

std::vector<std::string> Attachment::TakeWarnings() { return report_.TakeWarnings(); }

}  // namespace jobscope::cuda
