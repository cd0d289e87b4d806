// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvml/gpu_monitor.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/nvml/visible_devices.h"
#include "common/clock/monotonic.h"
#include "common/sync/mutex.h"
#include "common/threads/worker_thread.h"
#include "jobscope/detail/ticks.h"

namespace jobscope::nvml {
namespace {

// Bounds samples that wait to be taken: one minute of 16 GPUs at ten per second.
constexpr size_t kMaxSamples = 9'600;

Snapshot::State StateOf(Result result) {
  return result == kDriverNotLoaded || result == kGpuNotFound ? Snapshot::kAbsent
                                                              : Snapshot::kFailed;
}

}  // namespace

// Shared with the thread, which outlives the monitor if a call hangs.
struct GpuMonitor::State : std::enable_shared_from_this<State> {
  explicit State(MonitorOptions chosen) : options(std::move(chosen)) {}

  // Called by the thread without the lock: makes all calls that may hang.
  Snapshot Look(bool find);
  GpuChoice Choose();
  bool Open(Snapshot* snapshot);
  std::vector<Sample> SampleAll(bool with_tsc);

  // From StartSampling on.
  struct Sampling {
    bool on = false;
    bool uses_tsc = false;
    absl::Time next;  // when the next samples are due
    std::deque<Sample> samples;
    SamplingCounts counts;
  };

  const MonitorOptions options;
  CallWatch watch;

  // Used only by the thread.
  const Api* api = nullptr;
  std::unique_ptr<GpuReader> reader;
  GpuChoice choice;
  bool found = false;
  // CUDA's GPUs, which do not change once they are known. Each query would be traced like calls of
  // the application, and would take one of CUPTI's per-thread buffers.
  std::optional<std::vector<std::string>> cuda_uuids;

  mutable Mutex mutex;
  CondVar changed;
  bool running ABSL_GUARDED_BY(mutex) = false;  // whether the thread runs
  bool ending ABSL_GUARDED_BY(mutex) = false;
  bool refresh ABSL_GUARDED_BY(mutex) = false;
  uint64_t finds_wanted ABSL_GUARDED_BY(mutex) = 0;
  uint64_t finds_done ABSL_GUARDED_BY(mutex) = 0;
  bool wants_find() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return finds_done < finds_wanted; }
  // True while a recent failure is remembered, so that nobody asks again.
  bool remembered() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return (snapshot.state == Snapshot::kAbsent || snapshot.state == Snapshot::kFailed) &&
           SteadyNow() - looked <= options.retry_after;
  }
  std::vector<std::function<void()>> waiters ABSL_GUARDED_BY(mutex);
  Snapshot snapshot ABSL_GUARDED_BY(mutex);
  absl::Time looked ABSL_GUARDED_BY(mutex) = absl::InfinitePast();  // when `snapshot` was taken
  Sampling sampling ABSL_GUARDED_BY(mutex);

  // Starts the thread unless it runs. False: the system gives none.
  bool StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // The thread's body.
  void Main() ABSL_LOCKS_EXCLUDED(mutex);
  void LookAndTell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Samples, or waits until the next sample is due. False: nothing is to be sampled.
  bool SampleWhenDue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  absl::Time idle_since ABSL_GUARDED_BY(mutex);
};

GpuChoice GpuMonitor::State::Choose() {
  if (!cuda_uuids.has_value() && options.cuda_devices) cuda_uuids = options.cuda_devices();
  GpuChoice chosen;
  chosen.cuda_uuids = cuda_uuids;
  chosen.visible = ParseVisibleDevices(options.visible_devices);
  return chosen;
}

bool GpuMonitor::State::Open(Snapshot* snapshot) {
  if (api == nullptr) {
    watch.Begin("dlopen of NVML");
    Loaded loaded = LoadNvml(options.library);
    watch.End();
    if (loaded.api == nullptr) {
      snapshot->state = loaded.absent ? Snapshot::kAbsent : Snapshot::kFailed;
      snapshot->reason = std::move(loaded.reason);
      return false;
    }
    api = loaded.api;
  }
  if (reader == nullptr) reader = std::make_unique<GpuReader>(api, &watch);
  if (const Result result = reader->Open(); result != kSuccess) {
    snapshot->state = StateOf(result);
    snapshot->reason = FailureText("nvmlInit_v2", result);
    return false;
  }
  return true;
}

Snapshot GpuMonitor::State::Look(bool find_anew) {
  Snapshot taken;
  const bool was_open = reader != nullptr && reader->is_open();
  if (Open(&taken)) {
    GpuChoice now = Choose();
    if (find_anew || !was_open || !found || !(now == choice)) {
      choice = std::move(now);
      const absl::Status status = reader->Find(choice);
      found = status.ok();
      if (!found) {
        taken.state = Snapshot::kFailed;
        taken.reason = std::string(status.message());
      }
    }
    taken.driver_version = reader->driver_version();
    taken.cuda_version = reader->cuda_version();
    taken.chosen_by = choice.all()                    ? "all"
                      : choice.cuda_uuids.has_value() ? "CUDA"
                                                      : "CUDA_VISIBLE_DEVICES";
    taken.notes = reader->notes();
    if (found) {
      for (size_t i = 0; i < reader->gpus().size(); ++i) {
        taken.gpus.push_back({reader->gpus()[i], reader->Read(i)});
      }
      taken.state = taken.gpus.empty() ? Snapshot::kAbsent : Snapshot::kKnown;
      if (taken.gpus.empty()) {
        taken.reason = !taken.notes.empty() ? taken.notes[0]
                       : choice.all()       ? "the driver knows no GPU"
                                            : "no GPU is visible to this process; look at "
                                              "CUDA_VISIBLE_DEVICES";
      }
    }
  }
  taken.at = SteadyNow();
  return taken;
}

std::vector<Sample> GpuMonitor::State::SampleAll(bool with_tsc) {
  std::vector<Sample> taken;
  if (reader == nullptr || !reader->is_open()) return taken;
  for (size_t i = 0; i < reader->gpus().size(); ++i) {
    Sample sample;
    sample.gpu = reader->gpus()[i];
    const uint64_t before = detail::ReadTicks(with_tsc);
    sample.reading = reader->Read(i);
    sample.ticks = before + (detail::ReadTicks(with_tsc) - before) / 2;
    taken.push_back(std::move(sample));
  }
  return taken;
}

GpuMonitor::GpuMonitor(MonitorOptions options)
    : state_(std::make_shared<State>(std::move(options))) {}

GpuMonitor::~GpuMonitor() {
  const MutexLock lock(&state_->mutex);
  state_->ending = true;
  state_->changed.NotifyAll();
}

bool GpuMonitor::State::StartThread() {
  if (running) return true;
  if (absl::Status started =
          StartWorkerThread("jobscope-nvml", [shared = shared_from_this()] { shared->Main(); });
      !started.ok()) {
    snapshot.state = Snapshot::kFailed;
    snapshot.reason = std::string(started.message());
    looked = SteadyNow();
    return false;
  }
  running = true;
  return true;
}

void GpuMonitor::State::Main() {
  const MutexLock lock(&mutex);
  idle_since = SteadyNow();
  while (!ending) {
    if (refresh || wants_find()) {
      LookAndTell();
      continue;
    }
    if (SampleWhenDue()) continue;
    const absl::Time now = SteadyNow();
    const absl::Time end = idle_since + options.linger;
    if (reader == nullptr || !reader->is_open() || now >= end) break;
    changed.WaitFor(&mutex, end - now);
  }
  // `running` stays set until NVML is closed.
  while (reader != nullptr && reader->is_open()) {
    const MutexUnlock unlocked(&mutex);
    reader->Close();
  }
  found = false;
  running = false;
  // Work was requested while NVML was being closed.
  if (!ending && (refresh || wants_find())) (void)StartThread();
  changed.NotifyAll();
}

void GpuMonitor::State::LookAndTell() {
  const uint64_t finds = finds_wanted;
  const bool find = wants_find();
  refresh = false;
  Snapshot taken;
  {
    const MutexUnlock unlocked(&mutex);
    taken = Look(find);
  }
  finds_done = finds;
  snapshot = std::move(taken);
  looked = idle_since = SteadyNow();
  const std::vector<std::function<void()>> callbacks = std::exchange(waiters, {});
  changed.NotifyAll();
  const MutexUnlock unlocked(&mutex);
  for (const auto& done : callbacks) done();
}

bool GpuMonitor::State::SampleWhenDue() {
  const absl::Time now = SteadyNow();
  if (!sampling.on || reader == nullptr || !reader->is_open()) return false;
  if (now < sampling.next) {
    changed.WaitFor(&mutex, sampling.next - now);
    return true;
  }
  const bool with_tsc = sampling.uses_tsc;
  std::vector<Sample> taken;
  {
    const MutexUnlock unlocked(&mutex);
    taken = SampleAll(with_tsc);
  }
  idle_since = SteadyNow();
  sampling.counts.slowest = std::max(sampling.counts.slowest, idle_since - now);
  sampling.next = std::max(sampling.next + options.every, idle_since);
  if (!sampling.on) return true;  // sampling ended meanwhile: discard them
  for (Sample& sample : taken) sampling.samples.push_back(std::move(sample));
  while (sampling.samples.size() > kMaxSamples) {
    sampling.samples.pop_front();
    ++sampling.counts.forgotten;
  }
  return true;
}

Snapshot GpuMonitor::Latest() const {
  const MutexLock lock(&state_->mutex);
  return state_->snapshot;
}

bool GpuMonitor::RemembersAbsence() const {
  const MutexLock lock(&state_->mutex);
  return state_->remembered() && state_->snapshot.state == Snapshot::kAbsent;
}

std::string GpuMonitor::Hang() const {
  absl::Duration since;
  const char* const call = state_->watch.Running(&since);
  if (call == nullptr || since < state_->options.hangs_after) return "";
  return absl::StrCat(call, " has not returned; the job is not affected");
}

bool GpuMonitor::Refresh(absl::Duration max_age, std::function<void()> done) {
  if (!Hang().empty()) return false;
  State& s = *state_;
  const MutexLock lock(&s.mutex);
  if (s.remembered()) return false;
  if (s.looked != absl::InfinitePast() && SteadyNow() - s.looked <= max_age) return false;
  s.refresh = true;
  if (!s.StartThread()) {
    s.refresh = false;
    return false;
  }
  s.waiters.push_back(std::move(done));
  s.changed.NotifyAll();
  return true;
}

bool GpuMonitor::Prepare(absl::Duration timeout) {
  if (!Hang().empty()) return false;
  State& s = *state_;
  const MutexLock lock(&s.mutex);
  if (s.remembered()) return true;
  const uint64_t wanted = ++s.finds_wanted;
  if (!s.StartThread()) {
    s.finds_done = wanted;
    return true;
  }
  s.changed.NotifyAll();
  return s.changed.WaitFor(&s.mutex, timeout, [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(s.mutex) {
    return s.finds_done >= wanted;
  });
}

void GpuMonitor::StartSampling(bool uses_tsc) {
  State& s = *state_;
  const MutexLock lock(&s.mutex);
  s.sampling = {};
  s.sampling.on = true;
  s.sampling.uses_tsc = uses_tsc;
  s.sampling.next = SteadyNow();
  if (s.remembered()) return;
  // Reopens NVML if it was closed since Prepare: the start can be hours after it.
  s.refresh = true;
  (void)s.StartThread();
  s.changed.NotifyAll();
}

void GpuMonitor::StopSampling() {
  const MutexLock lock(&state_->mutex);
  state_->sampling.on = false;
  state_->changed.NotifyAll();
}

std::vector<Sample> GpuMonitor::TakeSamples() {
  std::deque<Sample> taken;
  {
    const MutexLock lock(&state_->mutex);
    taken.swap(state_->sampling.samples);
  }
  return {std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end())};
}

GpuMonitor::SamplingCounts GpuMonitor::Counts() const {
  const MutexLock lock(&state_->mutex);
  return state_->sampling.counts;
}

}  // namespace jobscope::nvml
