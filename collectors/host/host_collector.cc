// SPDX-License-Identifier: Apache-2.0
#include "collectors/host/host_collector.h"

#include <dirent.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "common/threads/thread_name.h"
#include "jobscope/detail/ticks.h"

namespace jobscope {
namespace {

constexpr uint32_t kAlwaysOnBits =
    JOBSCOPE_BIT_STEP | JOBSCOPE_BIT_INPUT_WAIT | JOBSCOPE_BIT_COARSE;

// Rings that Arm prepares: one for each thread without one, and some for new threads. Most threads
// of a large process never record, and a ring is 1 MiB, so the sum is bounded; further threads map
// their own.
constexpr uint32_t kSpareRings = 8;
constexpr uint32_t kMaxPrefault = 32;

uint32_t BitsOf(int host_level) {
  if (host_level <= 0) return 0;
  uint32_t bits = kAlwaysOnBits | JOBSCOPE_BIT_LEVEL1;
  if (host_level >= 2) bits |= JOBSCOPE_BIT_LEVEL2;
  if (host_level >= 3) bits |= JOBSCOPE_BIT_LEVEL3;
  return bits;
}

const host::Reader* Usable(const host::Reader* reader) {
  return reader != nullptr && reader->size >= sizeof(host::Reader) ? reader : nullptr;
}

// Excludes jobscope's own threads, one per collector: they never record, and their rings would take
// 9 MiB.
bool MayRecord(int64_t tid) {
  const std::string name = ThreadName(tid);
  return !name.empty() && !IsOwnThreadName(name);
}

// Counts at most `most`: reading a thread's name takes microseconds, and there may be thousands.
uint32_t CountThreads(uint32_t most) {
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 1;
  const absl::Cleanup close_directory = [tasks] { closedir(tasks); };
  uint32_t count = 0;
  const dirent* entry = nullptr;
  while (count < most && (entry = readdir(tasks)) != nullptr) {
    if (entry->d_name[0] != '.' && MayRecord(std::strtoll(entry->d_name, nullptr, 10))) ++count;
  }
  return count;
}

constexpr const char* kNoRecorder =
    "libjobscope_trace.so is missing from this process, or older than the server";

}  // namespace

HostCollector::HostCollector(const host::Reader* reader) : reader_(Usable(reader)) {}

HostCollector::~HostCollector() {
  SetContinuous(std::nullopt);
  SetAlwaysOn(false);
}

void HostCollector::SetHolder(uint32_t holder, uint32_t bits, uint64_t* since_ticks) {
  if (reader_ == nullptr) return;
  const MutexLock lock(&mutex_);
  reader_->set_mask(holder, bits);
  if (bits == 0) {
    *since_ticks = UINT64_MAX;
  } else if (*since_ticks == UINT64_MAX) {
    *since_ticks = detail::ReadTicks(reader_->uses_tsc != 0);
  }
}

void HostCollector::SetAlwaysOn(bool on) {
  SetHolder(JOBSCOPE_HOLDER_ALWAYS_ON, on ? kAlwaysOnBits : 0, &always_on_since_ticks_);
}

void HostCollector::SetContinuous(std::optional<int> host_level) {
  SetHolder(JOBSCOPE_HOLDER_CONTINUOUS, BitsOf(host_level.value_or(0)), &continuous_since_ticks_);
}

CollectorReport HostCollector::Describe() const {
  CollectorReport report;
  if (reader_ == nullptr) {
    report.state = CollectorState::kOff;
    report.reason = kNoRecorder;
  }
  return report;
}

template <typename Body>
auto HostCollector::OrEnd(Body body) {
  try {
    return body();
  } catch (...) {
    session_.reset();
    throw;
  }
}

absl::Status HostCollector::Arm(const ArmRequest& request) {
  oldest_ticks_.store(UINT64_MAX, std::memory_order_release);
  recording_since_.store(0, std::memory_order_release);
  lost_so_far_.store(0, std::memory_order_relaxed);
  session_.reset();
  if (reader_ == nullptr) return absl::FailedPreconditionError(kNoRecorder);
  uint64_t past_since_ticks;
  {
    const MutexLock lock(&mutex_);
    past_since_ticks = std::min(always_on_since_ticks_, continuous_since_ticks_);
  }
  uint32_t bits = BitsOf(request.recording.host_tracer_level);
  if (bits != 0) bits |= JOBSCOPE_BIT_STEP_USAGE;
  if (bits != 0) {
    jobscope_totals totals{};
    reader_->totals(&totals);
    const uint32_t threads = CountThreads(kMaxPrefault + static_cast<uint32_t>(totals.ring_count));
    const uint64_t rings = std::min<uint64_t>(totals.ring_count, threads);
    reader_->prefault(std::min(kMaxPrefault, static_cast<uint32_t>(threads - rings) + kSpareRings));
  }
  session_ = std::make_unique<host::HostSession>(reader_, request, bits, past_since_ticks);
  OrEnd([&] { session_->Arm(); });
  recording_since_.store(session_->recording_since(), std::memory_order_release);
  if (bits != 0 && request.lookback > absl::ZeroDuration()) {
    oldest_ticks_.store(session_->OldestTicks(), std::memory_order_release);
  }
  return absl::OkStatus();
}

absl::Status HostCollector::Start(const StartRequest& request) {
  if (session_ == nullptr) return absl::FailedPreconditionError("Start without Arm");
  absl::Status status = OrEnd([&] { return session_->Start(request); });
  if (!status.ok()) return status;
  recording_since_.store(session_->recording_since(), std::memory_order_release);
  // With a lookback, the window begins at the oldest record that is still in the rings.
  if (oldest_ticks_.load(std::memory_order_relaxed) != UINT64_MAX) {
    oldest_ticks_.store(session_->window_begin_ticks(), std::memory_order_release);
  }
  return absl::OkStatus();
}

absl::Duration HostCollector::Drain() {
  if (session_ == nullptr) return absl::InfiniteDuration();
  const absl::Duration pause = OrEnd([&] { return session_->Drain(); });
  lost_so_far_.store(session_->lost_so_far(), std::memory_order_relaxed);
  recording_since_.store(session_->recording_since(), std::memory_order_release);
  return pause;
}

absl::Status HostCollector::Stop(uint64_t end_ticks) {
  return session_ == nullptr ? absl::OkStatus() : OrEnd([&] { return session_->Stop(end_ticks); });
}

CollectorReport HostCollector::Report() {
  if (session_ == nullptr) {
    CollectorReport report = Describe();
    if (report.state == CollectorState::kOn) report.state = CollectorState::kFailed;
    return report;
  }
  CollectorReport report = session_->Report();
  session_.reset();
  return report;
}

}  // namespace jobscope
