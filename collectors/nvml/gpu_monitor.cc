// SPDX-License-Identifier: Apache-2.0
#include "collectors/nvml/gpu_monitor.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectors/nvml/visible_devices.h"
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

// Uses MONOTONIC, because system clocks may be set.
absl::Time Now() { return absl::FromUnixNanos(static_cast<int64_t>(detail::MonotonicNs())); }

}  // namespace

// Shared with the thread, which outlives the monitor if a call hangs.
struct GpuMonitor::State {
  explicit State(MonitorOptions chosen) : options(std::move(chosen)) {}

  // Called by the thread without the lock: makes all calls that may hang.
  Snapshot Look(bool find);
  GpuChoice Choose() const;
  bool Open(Snapshot* snapshot);
  std::vector<Sample> SampleAll(bool with_tsc);

  const MonitorOptions options;
  CallWatch watch;

  // Used only by the thread.
  const Api* api = nullptr;
  std::unique_ptr<GpuReader> reader;
  GpuChoice choice;
  bool found = false;

  mutable std::mutex mutex;
  std::condition_variable changed;
  bool running = false;  // whether the thread runs
  bool ending = false;
  bool refresh = false;
  uint64_t finds_wanted = 0;
  uint64_t finds_done = 0;
  bool wants_find() const { return finds_done < finds_wanted; }
  // True while a recent failure is remembered, so that nobody asks again.
  bool remembered() const {
    return (snapshot.state == Snapshot::kAbsent || snapshot.state == Snapshot::kFailed) &&
           Now() - looked <= options.retry_after;
  }
  std::vector<std::function<void()>> waiters;
  Snapshot snapshot;
  absl::Time looked = absl::InfinitePast();  // when `snapshot` was taken
  bool sampling = false;
  bool uses_tsc = false;
  absl::Time next_sample;
  std::deque<Sample> samples;
  SamplingCounts counts;
};

GpuChoice GpuMonitor::State::Choose() const {
  GpuChoice chosen;
  if (options.cuda_devices) chosen.cuda_uuids = options.cuda_devices();
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
    taken.chosen_by = choice.cuda_uuids.has_value() ? "CUDA"
                      : choice.visible.has_value()  ? "CUDA_VISIBLE_DEVICES"
                                                    : "all";
    taken.notes = reader->notes();
    if (found) {
      for (size_t i = 0; i < reader->gpus().size(); ++i) {
        taken.gpus.push_back({reader->gpus()[i], reader->Read(i)});
      }
      taken.state = taken.gpus.empty() ? Snapshot::kAbsent : Snapshot::kKnown;
      if (taken.gpus.empty()) {
        taken.reason = !taken.notes.empty()       ? taken.notes[0]
                       : taken.chosen_by == "all" ? "the driver knows no GPU"
                                                  : "no GPU is visible to this process; look at "
                                                    "CUDA_VISIBLE_DEVICES";
      }
    }
  }
  taken.at = absl::Now();
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
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->ending = true;
  state_->changed.notify_all();
}

// Requires the lock.
bool GpuMonitor::StartThread(const std::shared_ptr<State>& state) {
  if (state->running) return true;
  if (absl::Status started = StartWorkerThread("jobscope-nvml", [state] { Main(state); });
      !started.ok()) {
    state->snapshot.state = Snapshot::kFailed;
    state->snapshot.reason = std::string(started.message());
    state->looked = Now();
    return false;
  }
  state->running = true;
  return true;
}

void GpuMonitor::Main(const std::shared_ptr<State>& state) {
  State& s = *state;
  std::unique_lock<std::mutex> lock(s.mutex);
  absl::Time idle_since = Now();
  while (!s.ending) {
    if (s.refresh || s.wants_find()) {
      const uint64_t finds = s.finds_wanted;
      const bool find = s.wants_find();
      s.refresh = false;
      lock.unlock();
      Snapshot snapshot = s.Look(find);
      lock.lock();
      s.finds_done = finds;
      s.snapshot = std::move(snapshot);
      s.looked = idle_since = Now();
      const std::vector<std::function<void()>> waiters = std::exchange(s.waiters, {});
      s.changed.notify_all();
      lock.unlock();
      for (const auto& done : waiters) done();
      lock.lock();
      continue;
    }
    const absl::Time now = Now();
    const bool open = s.reader != nullptr && s.reader->is_open();
    if (s.sampling && open) {
      if (now < s.next_sample) {
        s.changed.wait_for(lock, absl::ToChronoNanoseconds(s.next_sample - now));
        continue;
      }
      const bool uses_tsc = s.uses_tsc;
      lock.unlock();
      std::vector<Sample> samples = s.SampleAll(uses_tsc);
      lock.lock();
      idle_since = Now();
      s.counts.slowest = std::max(s.counts.slowest, idle_since - now);
      s.next_sample = std::max(s.next_sample + s.options.every, idle_since);
      if (!s.sampling) continue;  // sampling ended meanwhile: discard them
      for (Sample& sample : samples) s.samples.push_back(std::move(sample));
      while (s.samples.size() > kMaxSamples) {
        s.samples.pop_front();
        ++s.counts.forgotten;
      }
      continue;
    }
    const absl::Time end = idle_since + s.options.linger;
    if (!open || now >= end) break;
    s.changed.wait_for(lock, absl::ToChronoNanoseconds(end - now));
  }
  // `running` stays set until NVML is closed.
  while (s.reader != nullptr && s.reader->is_open()) {
    lock.unlock();
    s.reader->Close();
    lock.lock();
  }
  s.found = false;
  s.running = false;
  // Work was requested while NVML was being closed.
  if (!s.ending && (s.refresh || s.wants_find())) (void)StartThread(state);
  s.changed.notify_all();
}

Snapshot GpuMonitor::Latest() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->snapshot;
}

bool GpuMonitor::RemembersAbsence() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->remembered() && state_->snapshot.state == Snapshot::kAbsent;
}

std::string GpuMonitor::Hang() const {
  absl::Duration since;
  const char* const call = state_->watch.Running(&since);
  if (call == nullptr || since < state_->options.hangs_after) return "";
  return absl::StrCat(call, " has not returned for ", absl::ToInt64Seconds(since),
                      " s; the job is not touched");
}

bool GpuMonitor::Refresh(absl::Duration max_age, std::function<void()> done) {
  if (!Hang().empty()) return false;
  State& s = *state_;
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (s.remembered()) return false;
  if (s.looked != absl::InfinitePast() && Now() - s.looked <= max_age) return false;
  s.refresh = true;
  if (!StartThread(state_)) {
    s.refresh = false;
    return false;
  }
  s.waiters.push_back(std::move(done));
  s.changed.notify_all();
  return true;
}

bool GpuMonitor::Prepare(absl::Duration timeout) {
  if (!Hang().empty()) return false;
  State& s = *state_;
  std::unique_lock<std::mutex> lock(s.mutex);
  if (s.remembered()) return true;
  const uint64_t wanted = ++s.finds_wanted;
  if (!StartThread(state_)) {
    s.finds_done = wanted;
    return true;
  }
  s.changed.notify_all();
  return s.changed.wait_for(lock, absl::ToChronoNanoseconds(timeout),
                            [&] { return s.finds_done >= wanted; });
}

void GpuMonitor::StartSampling(bool uses_tsc) {
  State& s = *state_;
  const std::lock_guard<std::mutex> lock(s.mutex);
  s.sampling = true;
  s.uses_tsc = uses_tsc;
  s.next_sample = Now();
  s.samples.clear();
  s.counts = {};
  if (s.remembered()) return;
  // Reopens NVML if it was closed since Prepare: the start can be hours after it.
  s.refresh = true;
  (void)StartThread(state_);
  s.changed.notify_all();
}

void GpuMonitor::StopSampling() {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  state_->sampling = false;
  state_->changed.notify_all();
}

std::vector<Sample> GpuMonitor::TakeSamples() {
  std::deque<Sample> taken;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    taken.swap(state_->samples);
  }
  return {std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end())};
}

GpuMonitor::SamplingCounts GpuMonitor::Counts() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->counts;
}

}  // namespace jobscope::nvml
