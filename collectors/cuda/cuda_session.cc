// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/cuda_session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "collectors/cuda/records/activity_names.h"
#include "collectors/cuda/records/record_walk.h"
#include "jobscope/detail/ticks.h"

namespace jobscope::cuda {
namespace {

// Between two looks at the buffers, and how long one may take: Drain must return within 100 ms.
constexpr absl::Duration kDrainEvery = absl::Milliseconds(100);
constexpr absl::Duration kDrainBudget = absl::Milliseconds(50);
// Open segments of quiet lines.
constexpr absl::Duration kWriteEvery = absl::Milliseconds(250);
// What is that fresh may still lie outside of the window, whose end is told a little late.
constexpr absl::Duration kFresh = absl::Milliseconds(50);
// Correlation ids whose last record is older than this, beyond the time that records are held.
constexpr absl::Duration kForgetAfter = absl::Seconds(8);
constexpr size_t kManyCorrelations = 100'000;
constexpr size_t kMaxUnknownKinds = 32;

constexpr const char* kInvalid = "invalid";

bool IsDeviceWork(ActivityType type) {
  return type == ActivityType::kKernel || type == ActivityType::kCopy ||
         type == ActivityType::kSet || type == ActivityType::kGraph;
}

}  // namespace

CudaSession::CudaSession(const ArmRequest& request, const CuptiApi* api, bool uses_tsc,
                         const Tracing::Options& tracing, const SessionLimits& limits,
                         RecentSteps steps, std::shared_ptr<DetachedCaller> calls,
                         FinalizeChoice finalize, bool graphs_seen)
    : request_(request),
      api_(api),
      uses_tsc_(uses_tsc),
      limits_(limits),
      pool_(BufferPool::Get()),
      tracing_(api, tracing, std::move(calls)),
      clock_(
          [api]() -> uint64_t {
            uint64_t now_ns = 0;
            return api->cuptiGetTimestamp(&now_ns) == kCuptiSuccess ? now_ns : 0;
          },
          [uses_tsc] { return detail::ReadTicks(uses_tsc); }, 1e9),
      steps_(std::move(steps)),
      writer_(request.sink, request.names, api, &kernels_, &threads_, &window_),
      finalize_(finalize),
      graphs_seen_(graphs_seen) {}

CudaSession::~CudaSession() {
  if (given_up_) return;
  pool_.SetMode(BufferPool::Mode::kIdle);
}

uint64_t CudaSession::Now() const { return detail::ReadTicks(uses_tsc_); }

uint64_t CudaSession::Ticks(absl::Duration duration) const {
  return static_cast<uint64_t>(absl::ToDoubleSeconds(duration) * ticks_per_second_);
}

absl::Status CudaSession::Arm() {
  (void)pool_.TakeCounts();
  // What an earlier session left behind is not ours.
  while (const auto full = pool_.TakeFull()) pool_.Free(full->slot);
  pool_.SetMode(BufferPool::Mode::kArmed);
  const absl::Status status = tracing_.Begin(limits_.begin);
  if (!status.ok()) {
    given_up_ = true;
    pool_.SetMode(BufferPool::Mode::kIdle);
    return status;
  }
  return absl::OkStatus();
}

absl::Status CudaSession::Start(const StartRequest& request) {
  phase_ = Phase::kRecording;
  ticks_per_second_ = request.map.ticks_per_second();
  clock_.SetRate(ticks_per_second_);
  window_.start_ticks = request.start_ticks;
  window_.end_ticks = request.end_ticks;
  window_.map = request.map;
  clock_.AddKnot();
  // Between Arm and here buffers were recycled; what CUPTI dropped then is not of this window.
  (void)tracing_.ForgetDropped(absl::Milliseconds(300));
  pool_.SetMode(BufferPool::Mode::kRecording);
  const BufferPool::Counts before = pool_.TakeCounts();
  if (before.recycled + before.refused + before.scrapped > 0) {
    // Of an earlier begin there is not all, if Start comes late.
    window_.start_ticks = std::max(window_.start_ticks, Now());
  }
  steps_.Update();
  last_flush_ticks_ = last_write_ticks_ = Now();
  return absl::OkStatus();
}

absl::Duration CudaSession::Drain() {
  if (phase_ != Phase::kRecording || given_up_) return absl::InfiniteDuration();
  clock_.AddKnot();
  steps_.Update();
  const uint64_t now = Now();
  if (tracing_.busy_for() > limits_.flush_hangs) {
    GiveUp();
  } else if (now - last_flush_ticks_ >= Ticks(limits_.flush_every)) {
    last_flush_ticks_ = now;
    tracing_.FlushSoon();
  }
  const bool all = ReadBuffers(kDrainBudget);
  EmitUntil(now - std::min(now, Ticks(limits_.hold)));
  if (held_.size() * sizeof(TimedActivity) > limits_.held_bytes) {
    EmitUntil(now - std::min(now, Ticks(kFresh)));
  }
  if (now - last_write_ticks_ >= Ticks(kWriteEvery)) {
    last_write_ticks_ = now;
    writer_.Flush();
    ForgetOldCorrelations();
  }
  uint64_t lost = writer_.refused() + account_.scrap_records;
  for (const auto& [cause, count] : account_.lost) lost += count;
  lost_so_far_.store(lost, std::memory_order_relaxed);
  if (given_up_) return absl::InfiniteDuration();
  return all ? kDrainEvery : absl::ZeroDuration();
}

bool CudaSession::ReadBuffers(absl::Duration budget) {
  const absl::Time deadline = absl::Now() + budget;
  while (const auto full = pool_.TakeFull()) {
    if (full->scrap) {
      CountScrap(*full);
    } else {
      ReadBuffer(*full);
    }
    pool_.Free(full->slot);
    if (absl::Now() > deadline) return false;
  }
  return true;
}

void CudaSession::CountScrap(const BufferPool::Full& buffer) {
  RecordWalk walk(api_, buffer.data, buffer.bytes);
  while (walk.Next()) ++account_.scrap_records;
}

void CudaSession::Account::LoseUnread(const char* cause) {
  ++attempted;
  Lose(cause);
  ++lost_without_id;
}

void CudaSession::ReadBuffer(const BufferPool::Full& buffer) {
  RecordWalk walk(api_, buffer.data, buffer.bytes);
  while (walk.Next()) TakeRecord(walk.record(), walk.left());
  if (!walk.unreadable()) return;
  ++account_.unreadable_buffers;
  account_.LoseUnread(kInvalid);
}

void CudaSession::TakeRecord(const uint8_t* record, size_t bytes) {
  TimedActivity timed;
  Activity& activity = timed.activity;
  switch (ParseRecord(record, bytes, api_->version, &activity)) {
    case ParseResult::kOk:
      break;
    case ParseResult::kUnknown: {
      uint32_t kind = 0;
      std::memcpy(&kind, record, std::min(bytes, sizeof(kind)));
      // Before 12.9 these come with synchronisation, whether they are wanted or not.
      if (kind == kKindCudaEvent && api_->version < kCupti12_9) return;
      if (account_.unknown_kinds.size() < kMaxUnknownKinds) ++account_.unknown_kinds[kind];
      return;
    }
    case ParseResult::kTruncated:
      return account_.LoseUnread(kInvalid);
  }
  std::free(std::exchange(activity.details, nullptr));
  if (activity.type == ActivityType::kApi && threads_.IsOurs(activity.thread)) return;
  ++account_.attempted;
  // Before all that looks at it: also a kernel that is lost names its launch.
  if (activity.type == ActivityType::kKernel) timed.name = kernels_.Find(activity.name);
  activity.name = nullptr;  // belongs to the library
  if (activity.graph != 0 || activity.type == ActivityType::kGraph) graphs_seen_ = true;
  if (activity.start_ns == 0) {
    // Work that never began, or of which CUPTI lost the time: mostly nodes of graphs when its pool
    // on the device was used up.
    return Lose(phase_ == Phase::kEnded && IsDeviceWork(activity.type) ? kUnfinished : kNoTimestamp,
                timed);
  }
  if (activity.end_ns != 0 && activity.end_ns < activity.start_ns) return Lose(kInvalid, timed);
  timed.start_ticks = clock_.ToTicks(activity.start_ns);
  timed.unfinished = activity.end_ns == 0;
  timed.end_ticks = timed.unfinished ? UINT64_MAX : clock_.ToTicks(activity.end_ns);
  Note(timed);
  // Memory counts also before the window, for its totals.
  const bool before = timed.end_ticks < window_.start_ticks;
  const bool after = timed.start_ticks > window_.end_ticks;
  if ((before || after) && activity.type != ActivityType::kMemory) {
    ++account_.outside;
    return;
  }
  held_.push_back(timed);
}

void CudaSession::Lose(const char* cause, const TimedActivity& timed) {
  account_.Lose(cause);
  if (!IsDeviceWork(timed.activity.type)) return;
  // With it the launch is known not to be missing; without, it may be any launch's.
  if (timed.activity.correlation == 0) {
    ++account_.lost_without_id;
    return;
  }
  Correlations::Known& known = correlations_.NoteWork(timed, window_.end_ticks);
  if (cause == kNoTimestamp) ++known.without_times;
  if (cause == kUnfinished) ++known.unfinished;
}

void CudaSession::Note(const TimedActivity& timed) {
  const Activity& activity = timed.activity;
  if (activity.correlation == 0) return;
  if (IsDeviceWork(activity.type)) {
    (void)correlations_.NoteWork(timed, window_.end_ticks);
  } else if (activity.type == ActivityType::kApi) {
    const EventWriter::Call& call = writer_.CallOf(activity.is_driver, activity.call);
    graphs_seen_ = graphs_seen_ || call.of_graphs;
    correlations_.NoteCall(timed, call);
  }
}

const StepSpan* CudaSession::StepOf(uint64_t ticks) const {
  const StepSpan* const step = steps_.Find(ticks);
  // A step that is cut at the window's edge is no step in the trace.
  if (step == nullptr || step->begin_ticks < window_.start_ticks) return nullptr;
  return step->end_ticks == 0 || step->end_ticks <= window_.end_ticks ? step : nullptr;
}

// XProf finds no steps at all beside a GPU plane of which no kernel belongs to one. A plane's name
// is told before its first event, which is seconds after the work: what is held then decides.
void CudaSession::ChoosePlanes() {
  if (writer_.has_device_planes()) return;
  if (steps_.Whole(window_.start_ticks, std::min(window_.end_ticks, Now())) == 0) return;
  for (const TimedActivity& timed : held_) {
    if (!IsDeviceWork(timed.activity.type)) continue;
    const Correlations::Known* const known = correlations_.Find(timed.activity.correlation);
    const bool has_call = known != nullptr && known->has_call;
    if (StepOf(has_call ? known->call_ticks : timed.start_ticks) != nullptr) return;
  }
  writer_.UseCustomPlanes();
}

void CudaSession::EmitUntil(uint64_t until_ticks) {
  Emit([until_ticks](const TimedActivity& timed) { return timed.end_ticks <= until_ticks; });
}

// A driver's call within a call of the runtime is told before that.
void CudaSession::EmitSettled() {
  const uint64_t now = Now();
  const uint64_t old = now - std::min(now, Ticks(kFresh));
  Emit([this, now, old](const TimedActivity& timed) {
    const Activity& activity = timed.activity;
    return timed.end_ticks <= (activity.is_driver ? old : now) &&
           activity.type != ActivityType::kMemory && correlations_.IsSettled(activity);
  });
  writer_.Flush();
}

void CudaSession::Emit(const std::function<bool(const TimedActivity&)>& is_ready) {
  const auto ready_end = std::partition(held_.begin(), held_.end(), is_ready);
  if (ready_end == held_.begin()) return;
  std::sort(held_.begin(), ready_end, [](const TimedActivity& a, const TimedActivity& b) {
    return a.start_ticks != b.start_ticks ? a.start_ticks < b.start_ticks
                                          : a.end_ticks > b.end_ticks;
  });
  if (std::any_of(held_.begin(), ready_end,
                  [](const TimedActivity& timed) { return IsDeviceWork(timed.activity.type); })) {
    ChoosePlanes();
  }
  // Work first: a call needs to know the plane of what it caused.
  for (auto timed = held_.begin(); timed != ready_end; ++timed) {
    if (IsDeviceWork(timed->activity.type)) EmitOne(*timed);
  }
  for (auto timed = held_.begin(); timed != ready_end; ++timed) {
    if (!IsDeviceWork(timed->activity.type)) EmitOne(*timed);
  }
  held_.erase(held_.begin(), ready_end);
}

void CudaSession::EmitOne(const TimedActivity& timed) {
  const Activity& activity = timed.activity;
  const bool inside = window_.Intersects(timed.start_ticks, timed.end_ticks);
  if (!inside) ++account_.outside;
  if (activity.type == ActivityType::kMemory) {
    writer_.Memory(timed);  // also outside: it changes the totals
    return;
  }
  if (!inside) return;
  const Correlations::Known* const known = correlations_.Find(activity.correlation);
  if (activity.type == ActivityType::kApi) {
    // A driver call inside of a runtime call has the same id: the outer one is the launch.
    const bool launch =
        known != nullptr && known->has_work && (!activity.is_driver || !known->has_runtime_call);
    writer_.Api(timed, launch ? &known->launched : nullptr,
                launch ? StepOf(timed.start_ticks) : nullptr);
    return;
  }
  if (!IsDeviceWork(activity.type)) {
    writer_.Other(timed);
    return;
  }
  const bool has_call = known != nullptr && known->has_call;
  if (has_call) {
    EventWriter::Order& order = order_[activity.device];
    ++order.launches;
    order.early += activity.start_ns < known->call_start_ns ? 1 : 0;
  }
  // Without its call (it came before the window, or from a graph) a kernel is tied by itself.
  writer_.Device(timed, has_call ? nullptr : StepOf(timed.start_ticks));
}

void CudaSession::ForgetOldCorrelations() {
  if (correlations_.size() < kManyCorrelations) return;
  const uint64_t now = Now();
  correlations_.ForgetOlderThan(now - std::min(now, Ticks(limits_.hold + kForgetAfter)));
}

}  // namespace jobscope::cuda
