// SPDX-License-Identifier: Apache-2.0
//
// The end of a session: what is in flight, the account, what is to be said, leaving CUPTI.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "collectors/cuda/cuda_session.h"
#include "jobscope/v1/item.pb.h"

namespace jobscope::cuda {
namespace {

// A kernel before its launch: more than this share is said.
constexpr double kMaxEarlyShare = 1e-4;
// Later than this behind the end, CUPTI gets no more time to return buffers.
constexpr absl::Duration kLastBuffers = absl::Milliseconds(50);

}  // namespace

// Tracing stays on: work whose kind is disabled while it is in flight gets no times. CUPTI
// withholds a buffer as long as something in it has not ended, and with it the calls beside that.
// So the work of the window has ended when each buffer that CUPTI had at its end has come back, and
// nothing that came launched something that has not.
bool CudaSession::AwaitWork(absl::Time stop_deadline) {
  const absl::Time deadline = absl::Now() + limits_.work_in_flight;
  const uint64_t mark = pool_.Mark();
  for (bool first = true;; first = false) {
    const absl::Duration left = std::max(stop_deadline - absl::Now(), absl::Milliseconds(100));
    if (!tracing_.Flush(std::min(left, limits_.end))) {
      GiveUp();
      return false;
    }
    (void)ReadBuffers(std::max(stop_deadline - absl::Now(), absl::ZeroDuration()));
    if (first) EmitSettled();
    if (pool_.LentWithRecords(mark) == 0 && correlations_.InFlight(window_) == 0) return true;
    if (absl::Now() >= deadline || !tracing_.FatalError().empty()) return false;
    absl::SleepFor(absl::Milliseconds(5));
  }
}

// CUPTI's own thread may be a little later with what was taken by force.
void CudaSession::TakeLastRecords(absl::Time deadline) {
  const absl::Time last = absl::Now() + kLastBuffers;
  bool all = false;
  do {
    all = ReadBuffers(std::max(deadline - absl::Now(), absl::ZeroDuration()));
    if (!all || given_up_ || pool_.LentWithRecords() == 0) break;
    absl::SleepFor(absl::Milliseconds(1));
  } while (absl::Now() < last);
  pool_.SetMode(BufferPool::Mode::kIdle);
  // Too many to read before Stop's caller times out: counted, like discarded ones.
  if (!all) CountUnread();
}

void CudaSession::GiveUp() {
  if (given_up_) return;
  given_up_ = true;
  hang_reason_ = tracing_.HangReason();
  tracing_.Abandon();
  pool_.SetMode(BufferPool::Mode::kIdle);
}

absl::Status CudaSession::Stop(uint64_t end_ticks) {
  if (std::exchange(phase_, Phase::kEnding) != Phase::kRecording) {
    if (!given_up_ && !tracing_.End(limits_.end)) GiveUp();
    return absl::OkStatus();  // Report leaves
  }
  window_.end_ticks = std::max(window_.start_ticks, std::min(window_.end_ticks, end_ticks));
  const absl::Time deadline = absl::Now() + limits_.stop;
  clock_.AddKnot();
  steps_.Update();
  work_in_flight_ = given_up_ || !AwaitWork(deadline);
  phase_ = Phase::kEnded;
  const absl::Duration rest = std::max(deadline - absl::Now(), absl::Milliseconds(100));
  if (!given_up_ && !tracing_.End(std::min(rest, limits_.end))) GiveUp();
  TakeLastRecords(deadline);
  clock_.AddKnot();
  steps_.Update();
  EmitUntil(UINT64_MAX);
  CloseAccount();
  for (const auto& [device, order] : order_) writer_.WriteOrder(device, order);
  writer_.Flush();
  report_.events = writer_.appended();
  AddWarnings();
  AppendLoss();
  return absl::OkStatus();
}

void CudaSession::CountUnread() {
  const uint64_t scrap = account_.scrap_records;
  while (const auto full = pool_.TakeFull()) {
    CountScrap(*full);
    pool_.Free(full->slot);
  }
  account_.unread_records = std::exchange(account_.scrap_records, scrap) - scrap;
}

void CudaSession::CloseAccount() {
  const Correlations::AfterTheEnd after = correlations_.LookAfter(window_);
  for (const auto& [device, launches] : after.began_after) order_[device].after = launches;
  const auto was_outside = [this](const char* cause, uint64_t count) {
    account_.outside += count;
    const auto found = account_.lost.find(cause);
    if (found != account_.lost.end() && (found->second -= count) == 0) account_.lost.erase(found);
  };
  was_outside(kNoTimestamp, after.without_times);
  was_outside(kUnfinished, after.unfinished);
  // While a call hangs nobody else may look at what it writes.
  const uint64_t dropped = given_up_ ? 0 : tracing_.dropped();
  // What may have been any launch's.
  uint64_t explained = account_.lost_without_id;
  const auto never_read = [&](const char* cause, uint64_t count) {
    if (count == 0) return;
    account_.Lose(cause, count);
    account_.attempted += count;
    explained += count;
  };
  never_read("gpu_pool", account_.scrap_records);
  never_read("gpu_unread", account_.unread_records);
  never_read("cupti_dropped", dropped);
  if (const uint64_t missing = correlations_.InFlight(window_); missing > explained) {
    account_.Lose(kUnfinished, missing - explained);
    account_.attempted += missing - explained;
  }
  writer_.Flush();
  if (const uint64_t refused = writer_.refused(); refused > 0) account_.Lose("store_full", refused);
  report_.attempted = account_.attempted;
  report_.outside = account_.outside;
  report_.lost_by_cause = account_.lost;
}

void CudaSession::AddWarnings() {
  std::vector<std::string>& warnings = report_.warnings;
  for (std::string& text : tracing_.TakeWarnings()) warnings.push_back(std::move(text));
  const auto add = [&](uint64_t count, std::string_view text) {
    if (count > 0) warnings.push_back(absl::StrCat(count, " ", std::string(text)));
  };
  const BufferPool::Counts counts = pool_.TakeCounts();
  add(counts.refused + counts.scrapped,
      "times CUPTI asked for a buffer and all were in use: records were lost; raise "
      "JOBSCOPE_CUDA_BUFFER_MB");
  add(counts.shared, "buffers were shared by several threads: their records are lost, uncounted");
  add(counts.late, "buffers came back after the end: their records are not in the trace");
  add(counts.foreign, "buffers came back that are not ours");
  add(account_.unreadable_buffers, "buffers could not be read to their end");
  for (const auto& [kind, count] : account_.unknown_kinds) {
    warnings.push_back(absl::StrCat(count, " records of CUPTI's kind ", kind, " were left out"));
  }
  add(clock_.steps(),
      "times the system clock was set during the capture: times of GPU events are "
      "off around these instants");
  EventWriter::Order all;
  for (const auto& [device, order] : order_) {
    all.launches += order.launches;
    all.early += order.early;
  }
  if (static_cast<double>(all.early) > static_cast<double>(all.launches) * kMaxEarlyShare) {
    warnings.push_back(absl::StrCat(all.early, " of ", all.launches,
                                    " kernels start before the call that launched them: the GPU's "
                                    "clock is off"));
  }
  if (api_->version >= kCupti14_0) {
    report_.state = "degraded";
    report_.reason = absl::StrCat("CUPTI ", CuptiVersionText(api_->version),
                                  " is newer than the versions that this server was tested with");
  }
  if (std::string fatal = tracing_.FatalError(); !fatal.empty()) {
    report_.state = "degraded";
    report_.reason = std::move(fatal);
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
  FinalizeDecision decision = DecideFinalize(api_->version, graphs_seen_, finalize_);
  if (decision.finalize && work_in_flight_) {
    decision = {false, "cuptiFinalize is not called: it would wait for work that is in flight"};
  }
  if (!tracing_.Leave(decision.finalize, limits_.leave_wait, limits_.leave)) {
    GiveUp();
    report_.state = "degraded";
    report_.reason = hang_reason_;
    return;
  }
  for (std::string& text : tracing_.TakeWarnings()) report_.warnings.push_back(std::move(text));
  if (tracing_.finalized()) pool_.Forsake();
  if (!decision.reason.empty() && !tracing_.finalized()) {
    report_.warnings.push_back(absl::StrCat(
        "CUPTI stays loaded into CUDA, which may slow it a little; ", decision.reason));
  }
}

CollectorReport CudaSession::Report() {
  Leave();
  return report_;
}

}  // namespace jobscope::cuda
