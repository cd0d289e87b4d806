// SPDX-License-Identifier: Apache-2.0
#include "collectors/cuda/cuda_session.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "collectors/cuda/activity_names.h"
#include "jobscope/detail/ticks.h"
#include "jobscope/v1/item.pb.h"

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
// A kernel before its launch: more than this share is said.
constexpr double kMaxEarlyShare = 1e-4;
// Later than this behind the end, CUPTI gets no more time to return buffers.
constexpr absl::Duration kLastBuffers = absl::Milliseconds(50);

constexpr const char* kNoTimestamp = "gpu_no_timestamp";
constexpr const char* kInvalid = "invalid";

bool IsDeviceWork(ActivityType type) {
  return type == ActivityType::kKernel || type == ActivityType::kCopy ||
         type == ActivityType::kSet || type == ActivityType::kGraph;
}

}  // namespace

CudaSession::CudaSession(const ArmRequest& request, const CuptiApi* api, bool uses_tsc,
                         const Tracing::Options& tracing, const SessionLimits& limits,
                         RecentSteps steps, std::shared_ptr<CallThread> calls,
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
      writer_(request.sink, request.names, api, &kernels_, &window_),
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
  window_.map = request.map;
  clock_.AddKnot();
  // Between Arm and here buffers were recycled; what CUPTI dropped then is not of this window.
  (void)tracing_.ForgetDropped(absl::Milliseconds(300));
  counts_ = pool_.TakeCounts();
  pool_.SetMode(BufferPool::Mode::kRecording);
  steps_.Update();
  last_flush_ticks_ = last_write_ticks_ = Now();
  return absl::OkStatus();
}

absl::Duration CudaSession::Drain() {
  if (!started_ || given_up_) return absl::InfiniteDuration();
  clock_.AddKnot();
  steps_.Update();
  const uint64_t now = Now();
  if (tracing_.flushing_for() > limits_.flush_hangs) {
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
      return;
  }
  std::free(std::exchange(activity.details, nullptr));
  ++attempted_;
  if (activity.graph != 0 || activity.type == ActivityType::kGraph) graphs_seen_ = true;
  if (activity.start_ns == 0) {
    // Work that never began, or of which CUPTI lost the time: mostly nodes of graphs when its pool
    // on the device was used up.
    ++lost_[kNoTimestamp];
    if (IsDeviceWork(activity.type)) Note(activity, &timed);
    return;
  }
  if (activity.end_ns != 0 && activity.end_ns < activity.start_ns) {
    ++lost_[kInvalid];
    return;
  }
  if (activity.type == ActivityType::kKernel) {
    timed.name = kernels_.Find(activity.name);
    activity.name = nullptr;  // belongs to the library
  }
  timed.start_ticks = clock_.ToTicks(activity.start_ns);
  timed.unfinished = activity.end_ns == 0;
  timed.end_ticks = timed.unfinished ? UINT64_MAX : clock_.ToTicks(activity.end_ns);
  Note(activity, &timed);
  if (timed.end_ticks < window_.start_ticks && activity.type != ActivityType::kMemory) {
    ++outside_;
    return;
  }
  held_.push_back(timed);
}

void CudaSession::Note(const Activity& activity, TimedActivity* timed) {
  const bool work = IsDeviceWork(activity.type);
  if (activity.correlation == 0 || (!work && activity.type != ActivityType::kApi)) return;
  Correlation& known = correlations_[activity.correlation];
  known.seen_ticks = std::max(known.seen_ticks, timed->start_ticks);
  if (work) {
    if (!known.has_work) known.launched = {activity.type, activity.device, timed->name};
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
      graph_marks_[activity.thread][timed->start_ticks] = call.graph_recording;
    }
    if (first) {
      known.call_start_ns = activity.start_ns;
      known.call_ticks = timed->start_ticks;
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
    ++pairs_;
    early_kernels_ += activity.start_ns < known->call_start_ns ? 1 : 0;
  }
  // Without its call (it came before the window, or from a graph) a kernel is tied by itself.
  const StepSpan* const own = has_call ? nullptr : StepOf(timed.start_ticks);
  if (own == nullptr && (!has_call || StepOf(known->call_ticks) == nullptr)) ++untied_;
  writer_.Device(timed, own);
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

uint64_t CudaSession::LaunchesInFlight() const {
  uint64_t count = 0;
  for (const auto& [correlation, known] : correlations_) {
    if (known.launches && !known.has_work && known.call_ticks >= window_.start_ticks &&
        known.call_ticks <= window_.end_ticks && !RecordsGraph(known.call_ticks)) {
      ++count;
    }
  }
  return count;
}

void CudaSession::WaitForWork(absl::Time deadline) {
  while (true) {
    const absl::Duration left = deadline - absl::Now();
    if (!tracing_.Flush(/*forced=*/false, std::max(left, absl::Milliseconds(50)))) {
      GiveUp();
      return;
    }
    (void)ReadBuffers(std::max(left, absl::Milliseconds(50)));
    if (LaunchesInFlight() == 0 || absl::Now() >= deadline) return;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

void CudaSession::GiveUp() {
  if (given_up_) return;
  given_up_ = true;
  hang_reason_ = tracing_.HangReason();
  tracing_.Abandon();
  pool_.SetMode(BufferPool::Mode::kIdle);
}

absl::Status CudaSession::Stop(uint64_t end_ticks) {
  if (!started_) {
    if (!given_up_ && !tracing_.End(limits_.end)) GiveUp();
    return absl::OkStatus();  // Report leaves
  }
  started_ = false;
  window_.end_ticks = end_ticks;
  const absl::Time begin = absl::Now();
  clock_.AddKnot();
  if (!given_up_) WaitForWork(begin + limits_.work_in_flight);
  if (!given_up_ && !tracing_.End(limits_.end)) GiveUp();
  const absl::Time last = absl::Now() + kLastBuffers;
  do {
    (void)ReadBuffers(absl::Milliseconds(300));
    if (given_up_ || pool_.lent() == 0) break;
    absl::SleepFor(absl::Milliseconds(1));
  } while (absl::Now() < last);
  pool_.SetMode(BufferPool::Mode::kIdle);
  clock_.AddKnot();
  steps_.Update();
  Emit(UINT64_MAX);
  writer_.Flush();
  CloseAccount();
  AddWarnings();
  AppendLoss();
  return absl::OkStatus();
}

void CudaSession::CloseAccount() {
  const BufferPool::Counts counts = pool_.TakeCounts();
  counts_ = counts;
  // While a call hangs nobody else may look at what it writes.
  const uint64_t dropped = given_up_ ? 0 : tracing_.dropped();
  const uint64_t refused = writer_.refused();
  if (refused > 0) lost_["store_full"] += refused;
  if (scrap_records_ > 0) lost_["gpu_pool"] += scrap_records_;
  if (dropped > 0) lost_["cupti_dropped"] += dropped;
  attempted_ += dropped + scrap_records_;
  const uint64_t no_timestamp = lost_.count(kNoTimestamp) == 0 ? 0 : lost_.at(kNoTimestamp);
  const uint64_t explained = dropped + scrap_records_ + no_timestamp;
  const uint64_t missing = LaunchesInFlight();
  if (missing > explained) {
    lost_["gpu_unfinished"] += missing - explained;
    attempted_ += missing - explained;
  }
  report_.attempted = attempted_;
  report_.outside = outside_;
  report_.events = writer_.appended();
  report_.lost_by_cause = lost_;
}

void CudaSession::AddWarnings() {
  std::vector<std::string>& warnings = report_.warnings;
  for (std::string& text : tracing_.TakeWarnings()) warnings.push_back(std::move(text));
  const auto add = [&](uint64_t count, std::string_view text) {
    if (count > 0) warnings.push_back(absl::StrCat(count, " ", std::string(text)));
  };
  add(counts_.refused + counts_.scrapped,
      "times CUPTI asked for a buffer and all were in use: records were lost; raise "
      "JOBSCOPE_CUDA_BUFFER_MB");
  add(counts_.shared, "buffers were shared by several threads: their records are lost, uncounted");
  add(counts_.late, "buffers came back after the end: their records are not in the trace");
  add(counts_.foreign, "buffers came back that are not ours");
  add(unreadable_buffers_, "buffers could not be read to their end");
  for (const auto& [kind, count] : unknown_kinds_) {
    warnings.push_back(absl::StrCat(count, " records of CUPTI's kind ", kind, " were left out"));
  }
  add(clock_.steps(),
      "times the system clock was set during the capture: times of GPU events are "
      "off around these instants");
  if (static_cast<double>(early_kernels_) > static_cast<double>(pairs_) * kMaxEarlyShare) {
    warnings.push_back(absl::StrCat(early_kernels_, " of ", pairs_,
                                    " kernels start before the call that launched them: the GPU's "
                                    "clock is off"));
  }
  if (api_->version >= kCupti14_0) {
    report_.state = "degraded";
    report_.reason = absl::StrCat("CUPTI ", CuptiVersionText(api_->version),
                                  " is newer than the versions that this server was tested with");
  }
  if (given_up_) {
    report_.state = "degraded";
    report_.reason = hang_reason_;
  }
}

void CudaSession::AppendLoss() {
  if (report_.lost_by_cause.empty()) return;
  v1::Loss loss;
  loss.set_collector("cuda");
  for (const auto& [cause, events] : report_.lost_by_cause) {
    v1::LossByCause* const entry = loss.add_causes();
    entry->set_cause(cause);
    entry->set_events(events);
  }
  if (!request_.sink->Append(xspace::ItemKind::kLoss, loss.SerializeAsString())) {
    report_.warnings.push_back("the store had no room for the account of the GPU part");
  }
}

void CudaSession::Leave() {
  if (given_up_ || std::exchange(left_, true)) return;
  const FinalizeDecision decision = DecideFinalize(api_->version, graphs_seen_, finalize_);
  if (!tracing_.Leave(decision.finalize, limits_.leave_wait, limits_.leave)) {
    GiveUp();
    report_.state = "degraded";
    report_.reason = hang_reason_;
    return;
  }
  for (std::string& text : tracing_.TakeWarnings()) report_.warnings.push_back(std::move(text));
  if (!decision.reason.empty()) {
    report_.warnings.push_back(absl::StrCat(
        "CUPTI stays loaded into CUDA, which may slow it a little; ", decision.reason));
  }
}

CollectorReport CudaSession::Report() {
  Leave();
  return report_;
}

}  // namespace jobscope::cuda
