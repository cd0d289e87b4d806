// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/tracing.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/cuda/buffer_pool.h"
#include "collectors/cuda/detacher.h"
#include "collectors/cuda/result_text.h"

namespace jobscope::cuda {
namespace {

struct Kind {
  uint32_t kind;
  const char* what;  // of a warning
  uint32_t since;    // version that brought it
};
// Kernels first: without them there is no GPU part. The rest in the order of their worth.
constexpr std::array<Kind, 9> kKinds = {{
    {kKindConcurrentKernel, "kernels", kCupti11_0},
    {kKindMemcpy, "copies", kCupti11_0},
    {kKindMemcpyPeer, "copies between GPUs", kCupti11_0},
    {kKindMemset, "memsets", kCupti11_0},
    {kKindRuntime, "calls of the CUDA runtime", kCupti11_0},
    {kKindDriver, "calls of the CUDA driver", kCupti11_0},
    {kKindSynchronization, "synchronisation", kCupti11_0},
    {kKindOverhead, "CUPTI's own overhead", kCupti11_0},
    {kKindMemory, "memory allocations", kCupti11_2},
}};

// Calls that frameworks make by the thousand, and that say nothing; from 12.5 on CUPTI leaves them
// out by itself. A test compares the numbers with NVIDIA's header where that is there.
constexpr std::array<uint32_t, 3> kNoisyRuntimeCalls = {17, 10, 11};  // cudaGetDevice,
                                                                      // cudaGetLastError,
                                                                      // cudaPeekAtLastError
constexpr std::array<uint32_t, 4> kNoisyDriverCalls = {
    304, 392, 686, 16};  // cuCtxGetCurrent, cuDevicePrimaryCtxGetState, cuKernelGetAttribute,
                         // cuCtxGetDevice

// CUpti_ActivityUnifiedMemoryCounterKind: bytes to the GPU and from it, faults of CPU and GPU,
// bytes between GPUs. Of all GPUs that the process uses.
constexpr std::array<uint32_t, 5> kUnifiedMemoryCounters = {1, 2, 3, 4, 8};
constexpr uint32_t kAllDevices = 2;

// What CUPTI reported by itself. Its callback may come on any thread, at any time.
class StateLog {
 public:
  static StateLog& Get() {
    static auto* const log = new StateLog;
    return *log;
  }
  void Add(std::string text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (texts_.size() < kMaxTexts) texts_.push_back(std::move(text));
  }
  std::vector<std::string> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(texts_, {});
  }
  void SetFatal(std::string text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!fatal_.load(std::memory_order_relaxed)) fatal_text_ = std::move(text);
    fatal_.store(true, std::memory_order_release);
  }
  bool fatal() const { return fatal_.load(std::memory_order_acquire); }
  std::string fatal_text() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return fatal_text_;
  }
  void Clear() {
    const std::lock_guard<std::mutex> lock(mutex_);
    texts_.clear();
    fatal_text_.clear();
    fatal_.store(false, std::memory_order_release);
  }

 private:
  static constexpr size_t kMaxTexts = 8;
  std::atomic<bool> fatal_{false};
  std::mutex mutex_;
  std::vector<std::string> texts_;
  std::string fatal_text_;
};

void OnCallback(void* /*userdata*/, uint32_t domain, uint32_t cbid, const void* data) {
  Detacher::Get().OnCallback(domain, data);
  if (domain != kDomainState || data == nullptr || cbid < kStateFatalError ||
      cbid > kStateWarning) {
    return;
  }
  const auto* const state = static_cast<const StateNotification*>(data);
  const ResultText* const known = FindResultText(state->result);
  std::string what =
      absl::StrCat(state->message == nullptr ? "" : std::string(state->message).substr(0, 300),
                   " (", state->result, known == nullptr ? "" : " ",
                   known == nullptr ? "" : std::string(known->name), ")");
  if (cbid == kStateFatalError) {
    return StateLog::Get().SetFatal(absl::StrCat("CUPTI has given up: ", what));
  }
  StateLog::Get().Add(
      absl::StrCat("CUPTI reports ", cbid == kStateWarning ? "a warning" : "an error", ": ", what));
}

}  // namespace

struct Tracing::Attachment {
  const CuptiApi* api = nullptr;
  Options options;
  std::atomic<bool> abandoned{false};
  std::atomic<const char*> call{""};  // the one that runs, or ran last

  // Touched by the call that runs, and between calls.
  absl::Status status;
  Subscriber subscriber = nullptr;
  bool subscribed = false;
  std::vector<uint32_t> enabled;
  std::vector<std::string> warnings;
  size_t dropped = 0;
  bool finalized = false;

  // After a fatal error CUPTI takes itself out of the process, as cuptiFinalize does. Whatever is
  // called then could bring it back.
  static bool Gone() { return StateLog::Get().fatal(); }

  std::string Failure(const char* name, CuptiResult result, std::string_view owner = {}) const {
    FailureContext context;
    context.call = name;
    context.cupti_version = api->version;
    context.driver_version = options.driver_version;
    context.old_owner = owner;
    const char* message = nullptr;
    if (api->cuptiGetErrorMessage != nullptr &&
        api->cuptiGetErrorMessage(&message) == kCuptiSuccess && message != nullptr) {
      context.own_message = message;
    }
    return FailureText(result, context);
  }

  // The name of whoever is subscribed, where CUPTI tells it.
  std::string Owner() {
    if (api->cuptiSubscribe_v2 == nullptr) return {};
    char owner[128] = {};
    SubscriberParams params{sizeof(params), "jobscope", owner, sizeof(owner) - 1};
    Subscriber other = nullptr;
    call = "cuptiSubscribe_v2";
    if (api->cuptiSubscribe_v2(&other, &OnCallback, nullptr, &params) == kCuptiSuccess) {
      (void)api->cuptiUnsubscribe(other);
      return {};
    }
    return owner;
  }

  void Begin() {
    call = "cuptiSubscribe";
    CuptiResult result = api->cuptiSubscribe(&subscriber, &OnCallback, nullptr);
    if (result != kCuptiSuccess) {
      const std::string owner = result == kCuptiMultipleSubscribers ? Owner() : "";
      status = absl::FailedPreconditionError(Failure("cuptiSubscribe", result, owner));
      return;
    }
    subscribed = true;
    if (api->cuptiEnableDomain != nullptr && api->version >= kCupti12_2) {
      call = "cuptiEnableDomain";
      (void)api->cuptiEnableDomain(1, subscriber, kDomainState);
    }
    if (api->cuptiSetThreadIdType != nullptr) {
      call = "cuptiSetThreadIdType";
      result = api->cuptiSetThreadIdType(kThreadIdSystem);
      if (result != kCuptiSuccess) {
        warnings.push_back(absl::StrCat("CUDA calls do not stand on their threads' lines: ",
                                        Failure("cuptiSetThreadIdType", result)));
      }
    }
    call = "cuptiActivityRegisterCallbacks";
    result = api->cuptiActivityRegisterCallbacks(&BufferPool::Request, &BufferPool::Complete);
    if (result != kCuptiSuccess) {
      status = absl::FailedPreconditionError(Failure("cuptiActivityRegisterCallbacks", result));
      return Undo();
    }
    for (const Kind& kind : kKinds) {
      if (api->version < kind.since) continue;
      if (!Enable(kind.kind, kind.what) && kind.kind == kKindConcurrentKernel) return Undo();
    }
    if (options.unified_memory) EnableUnifiedMemory();
    if (options.whole_graphs) (void)Enable(kKindGraphTrace, "CUDA graphs as a whole");
    QuietNoisyCalls();
  }

  // Needs to be told which counters before it is enabled.
  void EnableUnifiedMemory() {
    call = "cuptiActivityConfigureUnifiedMemoryCounter";
    std::array<UnifiedMemoryConfig, kUnifiedMemoryCounters.size()> configs{};
    for (size_t i = 0; i < configs.size(); ++i) {
      configs[i] = {kAllDevices, kUnifiedMemoryCounters[i], 0, 1};
    }
    const CuptiResult result = api->cuptiActivityConfigureUnifiedMemoryCounter == nullptr
                                   ? kCuptiNotImplemented
                                   : api->cuptiActivityConfigureUnifiedMemoryCounter(
                                         configs.data(), static_cast<uint32_t>(configs.size()));
    if (result == kCuptiSuccess) {
      (void)Enable(kKindUnifiedMemory, "unified memory");
    } else {
      warnings.push_back(absl::StrCat("unified memory is not traced: ", Failure(call, result)));
    }
  }

  bool Enable(uint32_t kind, const char* what) {
    call = "cuptiActivityEnable";
    const CuptiResult result = api->cuptiActivityEnable(kind);
    if (result == kCuptiSuccess) {
      enabled.push_back(kind);
      return true;
    }
    const std::string text = Failure("cuptiActivityEnable", result);
    if (kind == kKindConcurrentKernel) {
      status = absl::FailedPreconditionError(text);
    } else {
      warnings.push_back(absl::StrCat(what, " are not traced: ", text));
    }
    return false;
  }

  void QuietNoisyCalls() const {
    if (api->cuptiActivityEnableRuntimeApi != nullptr) {
      for (const uint32_t cbid : kNoisyRuntimeCalls) {
        (void)api->cuptiActivityEnableRuntimeApi(cbid, 0);
      }
    }
    if (api->cuptiActivityEnableDriverApi != nullptr) {
      for (const uint32_t cbid : kNoisyDriverCalls) {
        (void)api->cuptiActivityEnableDriverApi(cbid, 0);
      }
    }
  }

  void Disable() {
    if (Gone()) return;
    call = "cuptiActivityDisable";
    for (const uint32_t kind : std::exchange(enabled, {})) {
      const CuptiResult result = api->cuptiActivityDisable(kind);
      if (result != kCuptiSuccess) {
        warnings.push_back(
            absl::StrCat("tracing could not be switched off: ", Failure(call, result)));
      }
    }
  }

  void Flush(uint32_t flags) {
    if (Gone()) return;
    call = "cuptiActivityFlushAll";
    const CuptiResult result = api->cuptiActivityFlushAll(flags);
    if (result != kCuptiSuccess && warnings.size() < 16) {
      warnings.push_back(absl::StrCat("records may be missing: ", Failure(call, result)));
    }
  }

  void CountDropped() {
    if (Gone()) return;
    call = "cuptiActivityGetNumDroppedRecords";
    size_t count = 0;
    if (api->cuptiActivityGetNumDroppedRecords(nullptr, 0, &count) == kCuptiSuccess) {
      dropped += count;
    }
  }

  void Unsubscribe() {
    if (!std::exchange(subscribed, false) || Gone()) return;
    call = "cuptiUnsubscribe";
    const CuptiResult result = api->cuptiUnsubscribe(subscriber);
    subscriber = nullptr;
    if (result != kCuptiSuccess) {
      warnings.push_back(absl::StrCat("CUPTI stays attached: ", Failure(call, result)));
    }
  }

  void End() {
    Disable();
    Flush(kFlushForced);
    CountDropped();
  }

  void Leave(bool finalize, absl::Duration wait) {
    if (Gone()) finalized = true;
    if (!finalize || !subscribed || Gone()) return Unsubscribe();
    call = "cuptiFinalize";
    CuptiResult result = kCuptiSuccess;
    const Detacher::Outcome outcome = Detacher::Get().Detach(api, subscriber, wait, &result);
    if (outcome != Detacher::Outcome::kDone) {
      Unsubscribe();
      warnings.push_back(
          outcome == Detacher::Outcome::kNoCall
              ? "CUPTI stays loaded into CUDA, which may slow it a little: it can be taken out "
                "only "
                "as a call into CUDA returns, and none did; the next capture tries again"
              : absl::StrCat("CUPTI stays loaded into CUDA, which may slow it a little",
                             result == kCuptiSuccess ? "" : ": ",
                             result == kCuptiSuccess ? "" : Failure("cuptiEnableDomain", result)));
      return;
    }
    subscribed = false;
    subscriber = nullptr;
    finalized = result == kCuptiSuccess;
    if (result != kCuptiSuccess) {
      warnings.push_back(absl::StrCat("CUPTI stays loaded into CUDA, which may slow it a little: ",
                                      Failure(call, result)));
    }
  }

  // After a failure, or when nobody waits any more.
  void Undo() {
    Disable();
    Unsubscribe();
  }
};

Tracing::Tracing(const CuptiApi* api, const Options& options, std::shared_ptr<DetachedCaller> calls)
    : calls_(std::move(calls)), attachment_(std::make_shared<Attachment>()) {
  attachment_->api = api;
  attachment_->options = options;
}

Tracing::~Tracing() { Abandon(); }

bool Tracing::Run(absl::Duration timeout, const std::function<void(Attachment*)>& call) {
  const absl::Time deadline = absl::Now() + timeout;
  if (!calls_->Wait(timeout)) return false;
  call_posted_ = absl::Now();
  const std::shared_ptr<Attachment> attachment = attachment_;
  return calls_->Run("CUPTI", std::max(deadline - absl::Now(), absl::Milliseconds(1)),
                     [attachment, call] {
                       call(attachment.get());
                       if (attachment->abandoned) attachment->Undo();
                     });
}

absl::Status Tracing::Begin(absl::Duration timeout) {
  StateLog::Get().Clear();
  attached_ = true;
  if (!Run(timeout, [](Attachment* attachment) { attachment->Begin(); })) {
    Abandon();
    return absl::DeadlineExceededError(HangReason());
  }
  attached_ = attachment_->status.ok();
  return attachment_->status;
}

void Tracing::FlushSoon() {
  if (calls_->busy()) return;
  const std::shared_ptr<Attachment> attachment = attachment_;
  call_posted_ = absl::Now();
  (void)calls_->Post("CUPTI", [attachment] {
    attachment->Flush(0);
    if (attachment->abandoned) attachment->Undo();
  });
}

absl::Duration Tracing::busy_for() const {
  return calls_->busy() ? absl::Now() - call_posted_ : absl::ZeroDuration();
}

bool Tracing::Flush(bool forced, absl::Duration timeout) {
  return forced ? Run(timeout, [](Attachment* attachment) { attachment->Flush(kFlushForced); })
                : Run(timeout, [](Attachment* attachment) { attachment->Flush(0); });
}

bool Tracing::ForgetDropped(absl::Duration timeout) {
  return Run(timeout, [](Attachment* attachment) {
    attachment->CountDropped();
    attachment->dropped = 0;
  });
}

bool Tracing::Disable(absl::Duration timeout) {
  return Run(timeout, [](Attachment* attachment) { attachment->Disable(); });
}

bool Tracing::End(absl::Duration timeout) {
  return Run(timeout, [](Attachment* attachment) { attachment->End(); });
}

bool Tracing::Leave(bool finalize, absl::Duration wait, absl::Duration timeout) {
  if (!Run(timeout,
           [finalize, wait](Attachment* attachment) { attachment->Leave(finalize, wait); })) {
    return false;
  }
  attached_ = false;
  return true;
}

void Tracing::Abandon() {
  if (!std::exchange(attached_, false)) return;
  attachment_->abandoned = true;
  // A call that was just returning may have missed the flag; then this one undoes.
  const std::shared_ptr<Attachment> attachment = attachment_;
  (void)calls_->Wait(absl::Milliseconds(20));
  (void)calls_->Post("CUPTI", [attachment] { attachment->Undo(); });
}

uint64_t Tracing::dropped() const { return attachment_->dropped; }

bool Tracing::finalized() const { return attachment_->finalized; }

std::string Tracing::FatalError() const { return StateLog::Get().fatal_text(); }

std::vector<std::string> Tracing::TakeWarnings() {
  std::vector<std::string> warnings = StateLog::Get().Take();
  if (calls_->busy()) return warnings;
  for (std::string& text : std::exchange(attachment_->warnings, {})) {
    if (std::find(warnings.begin(), warnings.end(), text) == warnings.end()) {
      warnings.push_back(std::move(text));
    }
  }
  return warnings;
}

std::string Tracing::HangReason() const {
  return absl::StrCat(attachment_->call.load(),
                      " has not returned; the GPU part is given up, the job is not touched");
}

}  // namespace jobscope::cuda
