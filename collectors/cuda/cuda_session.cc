// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/cuda_session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "collectors/cuda/activity_names.h"
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
// A process records each of its graphs once. What goes beyond: launches into graphs count as
// unfinished.
constexpr size_t kMaxGraphMarks = 10'000;

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
  started_ = true;
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
  if (!started_ || given_up_) return absl::InfiniteDuration();
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
  Emit(now - std::min(now, Ticks(limits_.hold)));
  if (held_.size() * sizeof(TimedActivity) > limits_.held_bytes) {
    Emit(now - std::min(now, Ticks(kFresh)));
  }
  if (now - last_write_ticks_ >= Ticks(kWriteEvery)) {
    last_write_ticks_ = now;
    writer_.Flush();
    ForgetOldCorrelations();
  }
  uint64_t lost = writer_.refused() + scrap_records_;
  for (const auto& [cause, count] : lost_) lost += count;
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
  uint8_t* record = nullptr;
  // The library reads only.
  auto* const data = const_cast<uint8_t*>(buffer.data);
  for (size_t i = 0; i < buffer.bytes / 8; ++i) {
    if (api_->cuptiActivityGetNextRecord(data, buffer.bytes, &record) != kCuptiSuccess) return;
    ++scrap_records_;
  }
}

void CudaSession::ReadBuffer(const BufferPool::Full& buffer) {
  auto* const data = const_cast<uint8_t*>(buffer.data);  // the library reads only
  const uint8_t* const end = buffer.data + buffer.bytes;
  uint8_t* record = nullptr;
  const uint8_t* last = nullptr;
  while (true) {
    const CuptiResult result = api_->cuptiActivityGetNextRecord(data, buffer.bytes, &record);
    if (result == kCuptiMaxLimitReached) return;
    // A kind that the library does not know ends the buffer: nobody knows where the next one
    // begins. The same for an answer that makes no sense.
    if (result != kCuptiSuccess || record == nullptr || record < data || record >= end ||
        record <= last) {
      ++unreadable_buffers_;
      ++attempted_;
      ++lost_[kInvalid];
      ++lost_without_id_;
      return;
    }
    last = record;
    TakeRecord(record, static_cast<size_t>(end - record));
  }
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
      if (unknown_kinds_.size() < kMaxUnknownKinds) ++unknown_kinds_[kind];
      return;
    }
    case ParseResult::kTruncated:
      ++attempted_;
      ++lost_[kInvalid];
      ++lost_without_id_;
      return;
  }
  std::free(std::exchange(activity.details, nullptr));
  if (activity.type == ActivityType::kApi && threads_.IsOurs(activity.thread)) return;
  ++attempted_;
  // Before all that looks at it: also a kernel that is lost names its launch.
  if (activity.type == ActivityType::kKernel) timed.name = kernels_.Find(activity.name);
  activity.name = nullptr;  // belongs to the library
  if (activity.graph != 0 || activity.type == ActivityType::kGraph) graphs_seen_ = true;
  if (activity.start_ns == 0) {
    // Work that never began, or of which CUPTI lost the time: mostly nodes of graphs when its pool
    // on the device was used up.
    return Lose(last_flush_ && IsDeviceWork(activity.type) ? kUnfinished : kNoTimestamp, timed);
  }
  if (activity.end_ns != 0 && activity.end_ns < activity.start_ns) return Lose(kInvalid, timed);
  timed.start_ticks = clock_.ToTicks(activity.start_ns);
  timed.unfinished = activity.end_ns == 0;
  timed.end_ticks = timed.unfinished ? UINT64_MAX : clock_.ToTicks(activity.end_ns);
  Note(timed);
  if (timed.end_ticks < window_.start_ticks && activity.type != ActivityType::kMemory) {
    ++outside_;
    return;
  }
  held_.push_back(timed);
}

void CudaSession::Lose(const char* cause, const TimedActivity& timed) {
  ++lost_[cause];
  if (!IsDeviceWork(timed.activity.type)) return;
  // With it the launch is known not to be missing; without, it may be any launch's.
  if (timed.activity.correlation == 0) ++lost_without_id_;
  Note(timed);
}

void CudaSession::Note(const TimedActivity& timed) {
  const Activity& activity = timed.activity;
  const bool work = IsDeviceWork(activity.type);
  if (activity.correlation == 0 || (!work && activity.type != ActivityType::kApi)) return;
  Correlation& known = correlations_[activity.correlation];
  known.seen_ticks = std::max(known.seen_ticks, timed.start_ticks);
  if (work) {
    if (!known.has_work) known.launched = {activity.type, activity.device, timed.name};
    known.has_work = true;
  } else {
    const bool first = !known.has_call || (!activity.is_driver && !known.has_runtime_call);
    known.has_call = true;
    known.has_runtime_call = known.has_runtime_call || !activity.is_driver;
    const EventWriter::Call& call = writer_.CallOf(activity.is_driver, activity.call);
    // A call that failed launched nothing.
    known.launches = known.launches || (call.launches && activity.result == 0);
    graphs_seen_ = graphs_seen_ || call.of_graphs;
    if (call.graph_recording != 0 && activity.result == 0 && graph_mark_count_ < kMaxGraphMarks) {
      ++graph_mark_count_;
      graph_marks_[activity.thread][timed.start_ticks] = call.graph_recording;
    }
    if (first) {
      known.call_start_ns = activity.start_ns;
      known.call_ticks = timed.start_ticks;
    }
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
    const auto known = correlations_.find(timed.activity.correlation);
    const bool has_call = known != correlations_.end() && known->second.has_call;
    if (StepOf(has_call ? known->second.call_ticks : timed.start_ticks) != nullptr) return;
  }
  writer_.UseCustomPlanes();
}

void CudaSession::Emit(uint64_t until_ticks) {
  const auto ready_end = std::partition(
      held_.begin(), held_.end(),
      [until_ticks](const TimedActivity& timed) { return timed.end_ticks <= until_ticks; });
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
  if (!inside) ++outside_;
  if (activity.type == ActivityType::kMemory) {
    writer_.Memory(timed);  // also outside: it changes the totals
    return;
  }
  if (!inside) return;
  const auto found = correlations_.find(activity.correlation);
  const Correlation* const known = found == correlations_.end() ? nullptr : &found->second;
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
  const uint64_t oldest = now - std::min(now, Ticks(limits_.hold + kForgetAfter));
  for (auto at = correlations_.begin(); at != correlations_.end();) {
    const auto next = std::next(at);
    const Correlation& known = at->second;
    if (known.seen_ticks < oldest && (known.has_work || !known.launches)) correlations_.erase(at);
    at = next;
  }
}

// Whichever thread it was: another one's launches may go into the same graph (autograd's do).
bool CudaSession::RecordsGraph(uint64_t ticks) const {
  return std::any_of(graph_marks_.begin(), graph_marks_.end(), [ticks](const auto& thread) {
    const std::map<uint64_t, int>& marks = thread.second;
    const auto next = marks.upper_bound(ticks);
    if (next != marks.begin()) return std::prev(next)->second > 0;
    return next->second < 0;  // it began before the first record
  });
}

}  // namespace jobscope::cuda
